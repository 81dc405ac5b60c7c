#pragma once

#include <string_view>

namespace shardsim {

/// What errors whose codes begin as `code` does are about: E0203 and others of E02 are settings
/// that contradict each other. Null for what is no such code, or of no family.
[[nodiscard]] const char* error_family(std::string_view code);

}  // namespace shardsim
