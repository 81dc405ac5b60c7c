#include "sim/sweep/point_problems.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reports/verdict_words.hpp"
#include "scenarios/load.hpp"
#include "sim/run/metrics.hpp"

namespace shardsim {

namespace {

constexpr const char* kExpectationCode = "expectation";

// The row's own problem.
Problem problem_of_row(const SweepPlan& plan, const PointRow& row) {
  Problem problem;
  problem.file = plan.file;
  problem.code = row.code;
  problem.message = row.message;
  return problem;
}

// A value of an axis stands in no line that a reader could change for this point alone.
std::vector<Problem> in_file(std::vector<Problem> problems, const SweepPlan& plan) {
  for (Problem& problem : problems) {
    if (problem.file == plan.file) continue;
    problem.file = plan.file;
    problem.line = 0;
    problem.column = 0;
  }
  return problems;
}

std::vector<Problem> failed_expectations(const std::vector<Expectation>& expectations,
                                         const SweepPlan& plan, const PointRow& row) {
  Result result;
  result.metrics = row.metrics;
  result.error_bands = row.bands;
  std::vector<Problem> problems;
  for (const ExpectationResult& judged : judge(expectations, result)) {
    if (judged.passed) continue;
    Problem problem = problem_of_row(plan, row);
    problem.code = "expect";
    problem.message = expectation_text(judged, result);
    problem.line = judged.line;
    problem.column = judged.column;
    problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace

std::string point_words(const SweepPlan& plan, std::size_t point) {
  std::string words = fmt::format("point {}:", point);
  const std::vector<std::string> values = values_of(plan, point);
  for (std::size_t i = 0; i < values.size(); ++i) words += " " + plan.columns[i] + "=" + values[i];
  return words;
}

std::vector<Problem> problems_of_point(const SweepPlan& plan, const PointRow& row) {
  if (row.status == PointStatus::ok) return {};
  std::vector<Problem> problems;
  if (row.code != kExpectationCode) problems.push_back(problem_of_row(plan, row));
  try {
    const Scenario scenario =
        load_scenario_text(plan.text, plan.file, overrides_of(plan, row.point));
    // A run without metrics did not come to its expectations.
    if (row.metrics.empty()) return problems;
    for (Problem& failed : failed_expectations(scenario.expect, plan, row)) {
      problems.push_back(std::move(failed));
    }
  } catch (const ScenarioError& error) {
    problems = in_file(error.problems(), plan);
  }
  if (problems.empty()) problems.push_back(problem_of_row(plan, row));
  return problems;
}

std::string annotations_of_point(const SweepPlan& plan, const PointRow& row) {
  std::vector<Problem> problems = problems_of_point(plan, row);
  if (problems.empty()) return "";
  for (Problem& problem : problems) {
    problem.message = point_words(plan, row.point) + ": " + problem.message;
  }
  return ScenarioError(std::move(problems), 0).to_annotations();
}

}  // namespace shardsim
