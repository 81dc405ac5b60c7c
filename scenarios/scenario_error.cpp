#include "scenarios/scenario_error.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace shardsim {
namespace {

ExitCode exit_code_of(const std::vector<Problem>& problems) {
  const bool only_limits = std::all_of(problems.begin(), problems.end(), is_limit);
  return only_limits ? ExitCode::does_not_fit : ExitCode::bad_usage;
}

}  // namespace

ScenarioError::ScenarioError(std::vector<Problem> problems, std::size_t num_dropped)
    : Error(exit_code_of(problems), problems.front().code, problems.front().message,
            problems.front().help),
      problems_(std::move(problems)),
      num_dropped_(num_dropped) {}

std::string ScenarioError::render_all() const {
  std::string out;
  for (const Problem& problem : problems_) {
    out += render(problem);
  }
  if (num_dropped_ > 0) {
    out += "and " + std::to_string(num_dropped_) + " more problems\n";
  }
  return out;
}

std::string ScenarioError::to_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Problem& problem : problems_) {
    nlohmann::ordered_json item = {
        {"code", problem.code},
        {"severity", problem.severity == Severity::error ? "error" : "warning"},
        {"file", problem.file}};
    if (problem.line > 0) {
      item["line"] = problem.line;
      item["column"] = problem.column;
    }
    item["pointer"] = problem.pointer;
    item["message"] = problem.message;
    item["help"] = problem.help;
    list.push_back(std::move(item));
  }
  // File names and pointers may hold bytes that are not UTF-8; they are shown as U+FFFD.
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void throw_problem(const std::string& code, const Span& span, const std::string& message,
                   const std::string& help) {
  ProblemList problems;
  problems.add(code, span, "", message, help);
  throw ScenarioError(problems.problems(), problems.num_dropped());
}

}  // namespace shardsim
