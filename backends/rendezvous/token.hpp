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

/// What SHARDSIM_TOKEN_FILE holds (its first line), or SHARDSIM_TOKEN; nothing if neither is set.
/// Throws Error E1003 if the file cannot be read, belongs to another user than this one or root, or
/// others have any permission for it, and if the token is shorter than 16 characters or longer than
/// 256, of which no more is read.
[[nodiscard]] std::optional<std::string> find_token(
    const EnvironmentLookup& lookup = lookup_environment);

/// In a time that depends on the lengths only.
[[nodiscard]] bool same_token(std::string_view a, std::string_view b);

}  // namespace shardsim
