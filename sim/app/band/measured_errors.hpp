#pragma once

#include <string>
#include <vector>

#include "sim/app/band/measured_error.hpp"

// The errors that bands are made from, as a file: sim/app/band/measured_errors.json, which
// `shardsim validate --write-band` writes and the build puts into the program, so that a result
// depends on nothing else that lies on the machine.
namespace shardsim {

/// Errors of equal quantity, table, device, software and ranks become one sorted list, to 1e-4.
/// The same errors in any order give the same bytes.
[[nodiscard]] std::string measured_errors_text(const std::vector<MeasuredError>& errors);

/// Throws ScenarioError with file and line: E0932 (keys and types), and those of JSON.
[[nodiscard]] std::vector<MeasuredError> parse_measured_errors(const std::string& text,
                                                               const std::string& file_name);

/// Those that this program was built with.
[[nodiscard]] const std::vector<MeasuredError>& built_in_errors();

}  // namespace shardsim
