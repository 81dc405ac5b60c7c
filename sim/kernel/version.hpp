#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardsim {

// The version of this build, as "major.minor.patch". Results are a pure function of scenario, seed
// and this version, so every result names it.
std::string_view version();

/// The build folder of the program at `executable`: the folder with the build's own stamp, at most
/// two above the program's. The stamp must belong to the program's owner, to root or to this user.
/// Others must not be able to write it, unless they can write the program. Around a copied program,
/// anybody may own folders of the right names. Returns nothing for a program outside, such as an
/// installed one.
[[nodiscard]] std::optional<std::string> build_root_of(const std::string& executable);

/// The path of the running program; "" if the system does not say.
[[nodiscard]] std::string this_executable();

}  // namespace shardsim
