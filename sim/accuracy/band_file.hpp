#pragma once

#include <string>
#include <vector>

#include "sim/accuracy/validated_table.hpp"
#include "sim/run/band/measured_errors.hpp"

// Makes the errors for bands from validated tables.
namespace shardsim {

/// The errors of the headline's rows that fit their device, as predicted and, if available, also
/// without a framework. Errors are rounded to 1e-4, as in the file. A row with the prediction and
/// measurement of an earlier row of the table is the same run, and is left out.
[[nodiscard]] std::vector<MeasuredError> measured_errors_of(
    const std::vector<ValidatedTable>& tables);

/// The first line in which two texts differ, as a sentence; empty if they are equal.
[[nodiscard]] std::string first_difference(const std::string& in_file, const std::string& today);

}  // namespace shardsim
