#pragma once

#include <string>

#include "sim/diff/comparison.hpp"

// A limit on a change, for scripts: "step_time_s > 2%".
namespace shardsim {

struct ChangeLimit {
  std::string metric;
  bool above = true;
  double limit = 0.0;
  bool relative = false;  ///< In percent of A, else in the metric's unit.
};

/// Throws UsageError (E1344) for another text.
[[nodiscard]] ChangeLimit parse_limit(const std::string& text);

/// The change beyond the limit, in words; empty if there is none. Throws UsageError (E1344) if one
/// side does not have the metric, or if the base of percents is zero.
[[nodiscard]] std::string breach_of(const ChangeLimit& limit, const RunComparison& comparison);

}  // namespace shardsim
