#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/programs/chakra_reader.hpp"

// Files of programs, records and traces that a command line names.
namespace shardsim {

/// "step.12.et": 12.
[[nodiscard]] std::optional<int> rank_in_name(const std::string& path);

/// The files with their bytes; folders stand for the program files in them. Files are of the ranks
/// that their names say, else of as many as came before. Throws UsageError (E1378) for a folder
/// without program files, and what reading throws.
[[nodiscard]] std::vector<TraceFile> read_trace_files(const std::vector<std::string>& paths);

}  // namespace shardsim
