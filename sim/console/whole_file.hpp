#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

#include "scenarios/json_value.hpp"

// The one place in which the command writes files. No reader ever sees half a file: a file is
// written under a random name in the same folder, flushed to the disk, and renamed. A failure
// leaves the old file, and nothing beside it.
//
// The existing target decides:
//   nothing, or a file  the new file takes its place; its permissions are kept;
//   a link              is replaced, and its target stays as it is;
//   a pipe, a terminal, /dev/null, /dev/stdout, /dev/fd/3  are written to directly;
//   a folder, a disk    an error.
//
// Standard input is read whole, too.
namespace shardsim {

/// Writes the output of `produce` to the file `path`. Throws Error (E0901) with the cause and with
/// `otherwise`, the user's other way out, such as "choose another with -o".
void write_whole_file(const std::filesystem::path& path,
                      const std::function<void(std::ostream&)>& produce,
                      const std::string& otherwise = "name another file");

/// Throws the same error before a long run, as far as it can be foreseen. `makes_folder`: whether
/// missing folders will be made (make_folder_of).
void require_writable(const std::filesystem::path& path, bool makes_folder,
                      const std::string& otherwise = "name another file");

/// Makes the folder of a file that will be written, and its parents. Throws as write_whole_file()
/// does.
void make_folder_of(const std::filesystem::path& path,
                    const std::string& otherwise = "name another file");

/// Writes a file that a command was asked for, over an existing one, and prints a note on `err`.
/// Throws Error (E0901).
void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err);

/// Writes a file, and makes its folder if that is missing. Throws Error (E0901). `otherwise` is the
/// user's other way out, such as "choose another with -o".
void write_complete(const std::filesystem::path& path, const std::string& text,
                    const std::string& otherwise);

/// Prints "wrote runs/plan.json".
void tell_written(const std::filesystem::path& path, std::ostream& err);

/// The columns of a path that is shown.
inline constexpr std::size_t kShownPath = 200;
/// "\"runs/plan.json\"", safe for a terminal.
[[nodiscard]] std::string quoted_path(const std::filesystem::path& path);

/// The file name for standard input.
inline constexpr const char* kStandardInput = "-";
/// Reads all of it. Throws ScenarioError E0003 as soon as it exceeds the limit.
[[nodiscard]] std::string read_standard_input(std::istream& in,
                                              std::size_t max_bytes = JsonLimits{}.max_bytes);

}  // namespace shardsim
