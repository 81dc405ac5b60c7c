#pragma once

#include <string>
#include <vector>

#include "sim/app/band/measured_error.hpp"
#include "sim/app/validate/validated_table.hpp"

// From validated tables to the errors that bands are made from.
namespace shardsim {

/// Of the headline's rows that fit their device, as they were predicted and, where they were, also
/// without a framework. Errors are rounded to 1e-4, as the file has them. A row whose prediction
/// and measurement are those of a row before it in the table is the same run told twice, and left
/// out.
[[nodiscard]] std::vector<MeasuredError> measured_errors_of(
    const std::vector<ValidatedTable>& tables);

/// The first line in which two texts differ, as a sentence; empty if they are equal.
[[nodiscard]] std::string first_difference(const std::string& in_file, const std::string& today);

}  // namespace shardsim
