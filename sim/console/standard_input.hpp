#pragma once

#include <iosfwd>
#include <string>

// Reads a scenario from a pipe, with the limits of a file.
namespace shardsim {

/// The file name for standard input.
inline constexpr const char* kStandardInput = "-";

/// Reads all of it. Throws ScenarioError E0003 as soon as it exceeds the limit of scenario files.
[[nodiscard]] std::string read_standard_input(std::istream& in);

}  // namespace shardsim
