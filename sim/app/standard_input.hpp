#pragma once

#include <iosfwd>
#include <string>

// A scenario that comes by a pipe. It has the limits of a file.
namespace shardsim {

/// The name of the file that is standard input.
inline constexpr const char* kStandardInput = "-";

/// All of it. Throws ScenarioError E0003 as soon as it has more bytes than a scenario's file may.
[[nodiscard]] std::string read_standard_input(std::istream& in);

}  // namespace shardsim
