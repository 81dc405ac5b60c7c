#pragma once

#include <string>
#include <vector>

namespace shardsim {

/// Every metric that "expect" may name: those of a result (reports/result.hpp) that are numbers.
/// tests/app holds the two lists together; this library does not see reports.
const std::vector<std::string>& metrics_to_expect();

/// True for metrics that exist only when tensors are real.
bool is_oracle_metric(const std::string& name);

}  // namespace shardsim
