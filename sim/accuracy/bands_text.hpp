#pragma once

#include <string>
#include <vector>

#include "sim/run/band/measured_errors.hpp"

namespace shardsim {

/// The share of left-out tables' rows that error bands hold: in all, and per group of runs; the
/// groups whose band does not hold the model's number; and what is made anew for each table.
[[nodiscard]] std::string bands_text(const std::vector<MeasuredError>& errors);

/// The parts of a prediction that are made anew when a table is left out, and those that are not.
struct LeftOut {
  const char* made_anew;
  const char* kept;
};
[[nodiscard]] LeftOut left_out_words();

}  // namespace shardsim
