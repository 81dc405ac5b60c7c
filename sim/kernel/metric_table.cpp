#include "sim/kernel/metric_table.hpp"

#include <algorithm>
#include <iterator>

namespace shardsim {

namespace {

template <class Predicate>
std::vector<std::string> names_of_metrics(Predicate is_wanted) {
  std::vector<std::string> names;
  for (const MetricRow* const row : kMetricRows) {
    if (row->scope != MetricScope::unlisted && is_wanted(*row)) names.emplace_back(row->name);
  }
  return names;
}

}  // namespace

const MetricRow* find_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kMetricRows, name, &MetricRow::name);
  return found == std::end(kMetricRows) ? nullptr : *found;
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> kNames =
      names_of_metrics([](const MetricRow&) { return true; });
  return kNames;
}

const std::vector<std::string>& metrics_to_expect() {
  static const std::vector<std::string> kNames =
      names_of_metrics([](const MetricRow& row) { return row.type != MetricType::text; });
  return kNames;
}

bool is_oracle_metric(std::string_view name) {
  const MetricRow* const row = find_metric(name);
  return row != nullptr && row->scope == MetricScope::real_tensors;
}

}  // namespace shardsim
