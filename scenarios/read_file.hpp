#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

#include "scenarios/scenario_error.hpp"

// Reads untrusted files. Kind and size are checked before a byte is read, so that a directory, a
// pipe, a device or a huge file cannot hang the program.
namespace shardsim {

/// The bytes of a regular file of at most `max_bytes`, or nothing and a problem (E0001, E0003).
std::optional<std::string> read_regular_file(const std::string& path, std::size_t max_bytes,
                                             ProblemList& problems);
/// The same; throws ScenarioError in place of a problem.
std::string read_regular_file(const std::string& path, std::size_t max_bytes);

/// Reads a stream of unknown size, such as standard input. Returns nothing and adds a problem
/// (E0003, in the file `name`) as soon as the stream exceeds `max_bytes`.
std::optional<std::string> read_stream(std::istream& in, const std::string& name,
                                       std::size_t max_bytes, ProblemList& problems);

}  // namespace shardsim
