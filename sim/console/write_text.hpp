#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

// Writes texts to files (whole_file.hpp).
namespace shardsim {

/// Writes a file that a command was asked for, over an existing one, and prints a note on `err`.
/// Throws Error (E0901).
void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err);

/// Writes a file, and makes its folder if that is missing. Throws Error (E0901). `otherwise` is the
/// user's other way out, such as "choose another with -o".
void write_complete(const std::filesystem::path& path, const std::string& text,
                    const std::string& otherwise);

/// Prints "wrote runs/plan.json".
void tell_written(const std::filesystem::path& path, std::ostream& err);

}  // namespace shardsim
