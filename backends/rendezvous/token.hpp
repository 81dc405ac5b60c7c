#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/rendezvous/launch_environment.hpp"

// The secret that every connection to a rendezvous starts with.
namespace shardsim {

/// 128 random bits of the operating system, as 32 hexadecimal digits. Throws Error E1002 if it has
/// none to give.
[[nodiscard]] std::string make_token();

/// The first line of the file SHARDSIM_TOKEN_FILE, or SHARDSIM_TOKEN; nothing if neither is set.
/// Throws Error E1003 if the file cannot be read, belongs to neither this user nor root, or gives
/// others any permission. Throws it, too, if the token has fewer than 16 or more than 256
/// characters. Reads at most a little more than 256 characters.
[[nodiscard]] std::optional<std::string> find_token(
    const EnvironmentLookup& lookup = lookup_environment);

/// In a time that depends on the lengths only.
[[nodiscard]] bool same_token(std::string_view a, std::string_view b);

}  // namespace shardsim
