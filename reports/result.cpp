#include "reports/result.hpp"

#include <algorithm>

namespace shardsim {

const MetricValue* Result::find(const std::string& name) const {
  const auto metric = std::find_if(metrics.begin(), metrics.end(),
                                   [&name](const Metric& m) { return m.name == name; });
  return metric == metrics.end() ? nullptr : &metric->value;
}

std::optional<double> Result::number(const std::string& name) const {
  const MetricValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* flag = std::get_if<bool>(value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

}  // namespace shardsim
