#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/sensitivity.hpp"
#include "reports/stage_groups.hpp"
#include "reports/step_range.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {
namespace {

std::string fact_of_stages(const Input& input) {
  const std::vector<StageTime>& stages = input.detail.stages;
  if (stages.size() < 2) return {};
  const auto groups = groups_by_time(stages).size();
  return fmt::format("{}, {}", count_of(stages.size(), "stage"),
                     groups == 1 ? std::string("all alike") : fmt::format("{} kinds", groups));
}

std::string fact_of_cost(const Input& input) {
  const CostEstimate& cost = input.detail.cost;
  if (!(cost.days > 0)) return {};
  const auto centre = [&input](double by_the_model) {
    return range_with_step(input.result, by_the_model).centre;
  };
  return "about " + format_days(centre(cost.days)) +
         (cost.usd > 0 ? ", " + format_usd(centre(cost.usd)) : std::string());
}

std::string fact_of_memory(const Input& input) {
  const std::vector<StageTime>& stages = input.detail.stages;
  if (stages.size() < 2) return {};
  const auto fullest = std::ranges::max_element(stages, {}, &StageTime::peak_bytes);
  return fmt::format("stage {} is the fullest", fullest->stage);
}

std::string fact_of_communication(const Input& input) {
  const std::vector<AxisComm>& axes = input.detail.axes;
  const auto most = std::ranges::max_element(axes, {}, &AxisComm::exposed_s);
  if (most == axes.end()) return {};
  return fmt::format("{} waits most: {}", most->axis, format_seconds(most->exposed_s));
}

std::string fact_of_traffic(const Input& input) {
  const auto sent = input.result.number(metric::kCommBytesSentTotal);
  return sent ? format_traffic(*sent) + " in a step" : std::string();
}

std::string fact_of_roofline(const Input& input) {
  const std::vector<RooflinePoint>& points = input.detail.roofline.points;
  const auto most = std::ranges::max_element(points, {}, &RooflinePoint::time_s);
  if (most == points.end()) return {};
  return fmt::format("{} takes most time: {}", most->name, format_seconds(most->time_s));
}

std::string fact_of_sensitivity(const Input& input) {
  const std::vector<SensitivityBar>& bars = input.detail.sensitivity;
  const auto most = std::ranges::max_element(
      bars, {}, [](const SensitivityBar& bar) { return std::abs(bar.change); });
  if (most == bars.end()) return {};
  return fmt::format("most from {} ({}): {} time per token", most->quantity, change_words(most->by),
                     change_words(most->change));
}

std::string fact_of_checks(const Input& input) {
  const Result& result = input.result;
  const auto passed = std::ranges::count_if(result.checks, &Check::passed) +
                      std::ranges::count_if(result.expectations, &ExpectationResult::passed);
  const std::size_t all = result.checks.size() + result.expectations.size();
  return all == 0 ? std::string() : fmt::format("{} of {} passed", passed, all);
}

std::string fact_of_assumptions(const Input& input) {
  const std::vector<Assumption>& rows = input.result.assumptions;
  return fmt::format("{}, {} without a published source", format_count(rows.size()),
                     std::ranges::count_if(rows, &Assumption::is_assumed));
}

}  // namespace

SectionFacts section_facts(const Input& input) {
  return {.time = fact_of_stages(input),
          .cost = fact_of_cost(input),
          .memory = fact_of_memory(input),
          .schedule = "what each stage does, and when",
          .communication = fact_of_communication(input),
          .traffic = fact_of_traffic(input),
          .roofline = fact_of_roofline(input),
          .sensitivity = fact_of_sensitivity(input),
          .checks = fact_of_checks(input),
          .assumptions = fact_of_assumptions(input),
          .metrics = format_count(input.result.metrics.size())};
}

}  // namespace shardsim::html
