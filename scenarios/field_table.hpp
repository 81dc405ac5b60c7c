#pragma once

// The rows, by section. To add a field: add a member to scenario.hpp and a row here.

#include <vector>

#include "scenarios/bound_field.hpp"

namespace shardsim {

std::vector<Field> document_fields();
std::vector<Field> model_fields();
std::vector<Field> system_fields();
std::vector<Field> network_fields();
std::vector<Field> parallelism_fields();
std::vector<Field> data_parallel_fields();
std::vector<Field> training_fields();
std::vector<Field> execution_fields();
std::vector<Field> fault_fields();
std::vector<Section> fault_sections();
std::vector<Field> cost_fields();
std::vector<Field> output_fields();

/// The source of a whole section's numbers.
inline Field source_field(const char* path) {
  return loader_field(path).or_else("\"\"").doc(
      "Where the numbers of this section come from, unless one tells its own.");
}

// Powers of two that serve as upper bounds. They are chosen so that a product of the sizes of one
// tensor, its count and its element size stays within 64 bits.
inline constexpr double kTwoTo14 = 16384;
inline constexpr double kTwoTo20 = 1048576;
inline constexpr double kTwoTo22 = 4194304;
inline constexpr double kTwoTo24 = 16777216;
inline constexpr double kTwoTo31 = 2147483648.0;
inline constexpr double kTwoTo40 = 1099511627776.0;
inline constexpr double kTwoTo53 = 9007199254740992.0;

}  // namespace shardsim
