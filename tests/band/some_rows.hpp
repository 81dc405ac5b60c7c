#pragma once

#include <string>
#include <vector>

#include "sim/run/band/error_groups.hpp"

namespace shardsim::test {

/// Rows of one quantity, each by what measured / predicted is of it: powers of two and their
/// neighbours keep every figure exact.
class SomeRows {
 public:
  SomeRows& add(const std::string& table, const RunSetting& setting,
                const std::vector<double>& ratios) {
    for (const double ratio : ratios) {
      errors_.push_back({"step_time_s", table, setting, 1.0 / ratio - 1.0});
    }
    return *this;
  }

  [[nodiscard]] const std::vector<MeasuredError>& errors() const { return errors_; }
  [[nodiscard]] MeasuredRows rows() const { return comparable_rows(errors_, "step_time_s", "any"); }

 private:
  std::vector<MeasuredError> errors_;
};

/// The same ratio so many times.
inline std::vector<double> times(std::size_t count, double ratio) {
  return std::vector<double>(count, ratio);
}

}  // namespace shardsim::test
