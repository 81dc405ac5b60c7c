#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/metric_rows.hpp"

// The rows of metrics as lists, for code that treats many alike, and by the names that users write.
namespace shardsim {

/// All rows, in the order in which results have them.
#define SHARDSIM_METRIC(constant, ...) &metric::constant,
inline constexpr const MetricRow* kMetricRows[] = {SHARDSIM_METRIC_ROWS(SHARDSIM_METRIC)};
#undef SHARDSIM_METRIC

/// The row of each axis, in the order of results.
struct AxisMetric {
  const char* axis;
  const MetricRow& sent;
};
inline constexpr std::array<AxisMetric, 5> kAxisMetrics = {
    {{"dp", metric::kCommBytesSentByAxisDp},
     {"tp", metric::kCommBytesSentByAxisTp},
     {"cp", metric::kCommBytesSentByAxisCp},
     {"ep", metric::kCommBytesSentByAxisEp},
     {"pp", metric::kCommBytesSentByAxisPp}}};

/// The row of each category of memory, in the order of MemoryCategory.
inline constexpr std::array<const MetricRow*, kNumMemoryCategories> kMemoryMetrics = {
    &metric::kMemoryParamsBytesMax, &metric::kMemoryGradsBytesMax,
    &metric::kMemoryOptimizerBytesMax, &metric::kMemoryActivationsBytesMax,
    &metric::kMemoryCommBytesMax};

/// Null: there is none.
[[nodiscard]] const MetricRow* find_metric(std::string_view name);
/// Every metric that a result promises to list, in that order.
[[nodiscard]] const std::vector<std::string>& metric_names();
/// Those that "expect" may name: the numbers among them.
[[nodiscard]] const std::vector<std::string>& metrics_to_expect();
/// Whether it exists only when tensors are real.
[[nodiscard]] bool is_oracle_metric(std::string_view name);

}  // namespace shardsim
