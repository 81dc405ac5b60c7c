#include "sim/console/output_format.hpp"

#include <ostream>
#include <utility>
#include <vector>

#include "reports/result.hpp"
#include "reports/verdict_words.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

Problem found(const std::string& file, std::string code, std::string message) {
  Problem problem;
  problem.file = file;
  problem.code = std::move(code);
  problem.message = std::move(message);
  return problem;
}

}  // namespace

std::string annotations_of(const Result& result, const std::string& file) {
  std::vector<Problem> problems;
  for (const ExpectationResult& expectation : result.expectations) {
    if (expectation.passed) continue;
    Problem problem = found(file, "expect", expectation_text(expectation, result));
    problem.line = expectation.line;
    problem.column = expectation.column;
    problems.push_back(std::move(problem));
  }
  for (const Check& check : result.checks) {
    if (!check.passed) problems.push_back(found(file, check.name, check.detail));
  }
  if (result.diagnosis) {
    problems.push_back(found(file, result.diagnosis->code, result.diagnosis->summary));
  }
  return problems.empty() ? std::string() : ScenarioError(std::move(problems), 0).to_annotations();
}

void tell_warnings(const std::vector<std::string>& warnings, std::ostream& err) {
  for (const std::string& warning : warnings) {
    err << "warning: " << printable(warning, kWholeText) << "\n";
  }
}

}  // namespace shardsim
