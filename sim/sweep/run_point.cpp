#include "sim/sweep/run_point.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"
#include "sim/kernel/version.hpp"

#include "strategies/pipeline/schedule_csv.hpp"

#include "reports/verdict_words.hpp"
#include "scenarios/load.hpp"

namespace shardsim {

namespace {

std::string key_of(const std::string& text) {
  return fmt::format("{:016x}", hash_text(std::string(version()) + "\n" + text));
}

// The resolved scenario names files; results depend on their content.
std::string key_of(const Scenario& scenario) {
  std::string text = scenario.resolved_json;
  if (scenario.own_schedule != nullptr) text += to_csv(*scenario.own_schedule);
  for (const auto& layer : scenario.model.moe_popularity) {
    for (const double share : layer) text += fmt::format(" {}", share);
  }
  return key_of(text);
}

void fail(PointRow& row, PointStatus status, const std::string& code, const std::string& message) {
  row.status = status;
  row.code = code;
  row.message = message;
}

void refuse(PointRow& row, const ScenarioError& error) {
  const std::size_t more = error.problems().size() + error.num_dropped() - 1;
  const bool limit = error.exit_code() == ExitCode::does_not_fit;
  fail(row, limit ? PointStatus::failed : PointStatus::invalid, error.code(),
       more == 0 ? error.what() : fmt::format("{} (and {} more)", error.what(), more));
}

// The first check or expectation that did not hold.
void explain(PointRow& row, const Result& result) {
  for (const Check& check : result.checks) {
    if (!check.passed) return fail(row, PointStatus::failed, "check", check.detail);
  }
  for (const ExpectationResult& expected : result.expectations) {
    if (expected.passed) continue;
    return fail(row, PointStatus::failed, "expectation", expectation_text(expected));
  }
}

void judge_result(PointRow& row, Result&& result) {
  row.metrics = std::move(result.metrics);
  switch (static_cast<ExitCode>(result.exit_code)) {
    case ExitCode::ok:
      return;
    case ExitCode::does_not_fit: {
      const auto memory = std::find_if(result.checks.begin(), result.checks.end(),
                                       [](const Check& check) { return check.name == "memory"; });
      return fail(row, PointStatus::out_of_memory, "memory",
                  memory != result.checks.end() ? memory->detail : "");
    }
    case ExitCode::communication:
      return fail(row, PointStatus::failed, result.diagnosis->code, result.diagnosis->summary);
    default:
      return explain(row, result);
  }
}

}  // namespace

std::optional<PointRow> run_point(const SweepPlan& plan, std::size_t point,
                                  const IsComplete& is_complete, const RunHooks& hooks) {
  PointRow row{.point = point, .values = values_of(plan, point)};
  try {
    Scenario scenario;
    try {
      scenario = load_scenario_text(plan.text, plan.file, overrides_of(plan, point));
    } catch (const ScenarioError& error) {
      row.key = key_of(fmt::format("{} {} {}", plan.hash, point, error.what()));
      if (is_complete(point, row.key)) return std::nullopt;
      refuse(row, error);
      return row;
    }
    scenario.output.trace.clear();  // Points write no files; a trace would only take memory.
    row.key = key_of(scenario);
    if (is_complete(point, row.key)) return std::nullopt;
    judge_result(row, run_scenario(std::move(scenario), hooks).result);
  } catch (const Error& error) {
    fail(row, PointStatus::failed, error.code(), error.what());
  } catch (const std::exception& error) {  // Our bug, or too little memory here.
    fail(row, PointStatus::failed, kInternalCode, error.what());
  }
  return row;
}

}  // namespace shardsim
