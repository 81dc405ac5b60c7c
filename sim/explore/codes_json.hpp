#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/harness/codes.hpp"

// Codes of errors and diagnoses, as `shardsim explain` prints them.
namespace shardsim {

/// The subject of errors whose codes begin like `code`: E0203 and others of E02 are settings that
/// contradict each other. Null for text that is no such code, or belongs to no family.
[[nodiscard]] const char* error_family(std::string_view code);

/// An array of objects with `code`, `meaning`, `causes`, `fix` and `example`, and a line break.
[[nodiscard]] std::string to_json(std::span<const CodeEntry> entries);

}  // namespace shardsim
