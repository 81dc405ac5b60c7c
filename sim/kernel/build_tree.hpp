#pragma once

#include <optional>
#include <string>

namespace shardsim {

/// The build folder that the program at `executable` was built in: the folder with the build's own
/// stamp, at most two above the program's. The stamp must belong to the program's owner, to root or
/// to this user, and others may not write it, unless they may write the program: around a program
/// that was copied, folders of the right names may be anybody's. Nothing for a program that lies
/// elsewhere, as installed ones do.
[[nodiscard]] std::optional<std::string> build_root_of(const std::string& executable);

/// Of the running program: its path, "" if the system does not say.
[[nodiscard]] std::string this_executable();

}  // namespace shardsim
