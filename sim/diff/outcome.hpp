#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/diff/run_side.hpp"

// Results of a run besides its step: tokens/s per GPU, goodput if failures are modeled, and days
// and dollars if the length of the training is given.
namespace shardsim {

struct Outcome {
  std::string metric;
  std::optional<double> a;  ///< Nothing: that side does not have it.
  std::optional<double> b;
};

/// The outcomes that at least one side has; the throughput only if both have it.
[[nodiscard]] std::vector<Outcome> outcomes_of(const RunSide& a, const RunSide& b);

/// "; B's goodput is 97.10 % instead of 99.53 %"; empty if it is equal or unknown.
[[nodiscard]] std::string goodput_words(const std::vector<Outcome>& outcomes);

/// A line each, in the columns of the tables.
[[nodiscard]] std::string outcomes_text(const std::vector<Outcome>& outcomes);

}  // namespace shardsim
