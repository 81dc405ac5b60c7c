#include "reports/result.hpp"

#include <algorithm>

namespace shardsim {

const MetricValue* value_of(const std::vector<Metric>& metrics, const std::string& name) {
  const auto metric = std::ranges::find(metrics, name, &Metric::name);
  return metric == metrics.end() ? nullptr : &metric->value;
}

std::optional<double> as_number(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<double> Result::number(const std::string& name) const {
  const MetricValue* const value = find(name);
  return value == nullptr ? std::nullopt : as_number(*value);
}

}  // namespace shardsim
