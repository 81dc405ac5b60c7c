#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/app/desk/diff/run_side.hpp"

// What a run comes to besides its step: tokens/s per GPU, goodput where failures are reckoned with,
// and days and dollars where the length of the training is given.
namespace shardsim {

struct Outcome {
  std::string metric;
  std::optional<double> a;  ///< Nothing: that side does not tell it.
  std::optional<double> b;
};

/// Those that at least one side tells; the throughput where both do.
[[nodiscard]] std::vector<Outcome> outcomes_of(const RunSide& a, const RunSide& b);

/// "; B's goodput is 97.10 % instead of 99.53 %"; empty where it is the same or nowhere told.
[[nodiscard]] std::string goodput_words(const std::vector<Outcome>& outcomes);

/// A line each, in the columns of the tables.
[[nodiscard]] std::string outcomes_text(const std::vector<Outcome>& outcomes);

}  // namespace shardsim
