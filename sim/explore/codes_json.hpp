#pragma once

#include <span>
#include <string>

#include "sim/harness/codes.hpp"

namespace shardsim {

/// An array of objects with `code`, `meaning`, `causes`, `fix` and `example`, and a line break.
[[nodiscard]] std::string to_json(std::span<const CodeEntry> entries);

}  // namespace shardsim
