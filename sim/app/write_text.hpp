#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace shardsim {

/// Writes a file that a command was asked for, over what was there, and says so on `err`. Throws
/// UsageError (E0901). Results of runs are written in a safer way: command_run.
void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err);

}  // namespace shardsim
