#pragma once

#include <string_view>

namespace shardsim {

/// The subject of errors whose codes begin like `code`: E0203 and others of E02 are settings that
/// contradict each other. Null for text that is no such code, or belongs to no family.
[[nodiscard]] const char* error_family(std::string_view code);

}  // namespace shardsim
