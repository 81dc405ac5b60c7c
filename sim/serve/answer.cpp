#include "sim/serve/answer.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

constexpr int kBadRequest = 400;
constexpr int kBusy = 503;

ScenarioError as_one_problem(const Error& error) {
  Problem problem;
  problem.code = error.code();
  problem.message = error.what();
  problem.help = error.fix();
  return {{problem}, 0};
}

// A scenario's errors are a list by themselves, or the object already.
std::string errors_object(const ScenarioError& error) {
  std::string json = error.to_json();
  return json.starts_with('[') ? "{\"errors\": " + json + "}\n" : json + "\n";
}

}  // namespace

HttpAnswer errors_answer(const Error& error) {
  const auto* const scenario = dynamic_cast<const ScenarioError*>(&error);
  return {.status = kBadRequest,
          .body = errors_object(scenario != nullptr ? *scenario : as_one_problem(error))};
}

HttpAnswer ended_answer(WorkEnd why, int limit_s) {
  switch (why) {
    case WorkEnd::time_limit:
      return errors_answer(LimitError(
          "E0363", fmt::format("the simulation took more than {} s", limit_s),
          "use fewer GPUs, a smaller batch or execution.fold=auto; \"shardsim run\" has no limit"));
    case WorkEnd::replaced:
      return errors_answer(LimitError("E0364", "a newer request of this page came before it"));
    default:
      return {.status = kBusy, .body = "{\"errors\": []}\n"};
  }
}

HttpAnswer busy_answer() {
  HttpAnswer answer =
      errors_answer(LimitError("E0365", "too many requests wait", "try again in a moment"));
  answer.status = kBusy;
  return answer;
}

std::string json_text(const std::string& text) {
  constexpr int kNoIndent = -1;
  return nlohmann::json(text).dump(kNoIndent, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string json_member(const std::string& name, const std::string& value) {
  return json_text(name) + ": " + value;
}

}  // namespace shardsim
