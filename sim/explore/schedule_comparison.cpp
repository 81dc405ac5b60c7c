#include "sim/explore/schedule_comparison.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "sim/explore/scenario_token.hpp"

namespace shardsim {

namespace {

// Families of metrics that do not depend on the times of messages.
constexpr std::array<std::string_view, 5> kTimeless = {"comm.", "memory.", "moe.", "loss_scaling.",
                                                       "oracle."};

bool is_timeless(const std::string& name) {
  return std::any_of(kTimeless.begin(), kTimeless.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

std::string text_of(const MetricValue* value) {
  if (value == nullptr) return "absent";
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, *value);
}

Diagnosis differing(const std::string& what, const std::string& first, const Schedule& one,
                    const std::string& second, const Schedule& other) {
  Diagnosis diagnosis;
  diagnosis.code = "SCHEDULE_DEPENDS";
  diagnosis.summary = fmt::format("{} depends on the schedule: {} with {}, {} with {}", what, first,
                                  describe(one), second, describe(other));
  diagnosis.sides = {
      {.ranks = {}, .action = fmt::format("{}: {} is {}", describe(one), what, first), .site = {}},
      {.ranks = {},
       .action = fmt::format("{}: {} is {}", describe(other), what, second),
       .site = {}}};
  diagnosis.hint =
      "look for state that ranks share, and for what is decided by time, by address or by who "
      "comes first";
  return diagnosis;
}

}  // namespace

std::optional<Diagnosis> compare_schedules(const Schedule& first, const Result& first_result,
                                           const Schedule& second, const Result& second_result) {
  const bool all = first.sends == second.sends && first.sends != SendMode::drawn;
  for (const Metric& metric : first_result.metrics) {
    if (!all && !is_timeless(metric.name)) continue;
    const MetricValue* const other = second_result.find(metric.name);
    if (other != nullptr && *other == metric.value) continue;
    return differing(metric.name, text_of(&metric.value), first, text_of(other), second);
  }
  if (first_result.metrics.size() != second_result.metrics.size()) {
    return differing("the number of metrics", fmt::format("{}", first_result.metrics.size()), first,
                     fmt::format("{}", second_result.metrics.size()), second);
  }
  if (!all || first_result.exit_code == second_result.exit_code) return std::nullopt;
  return differing("the exit code", fmt::format("{}", first_result.exit_code), first,
                   fmt::format("{}", second_result.exit_code), second);
}

}  // namespace shardsim
