#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace shardsim {

/// The places in `names` of words with commas between them. Throws UsageError `code` for a word
/// that is no name, twice the same, or none at all.
[[nodiscard]] std::vector<std::size_t> places_of_modules(std::string_view words,
                                                         std::span<const char* const> names,
                                                         const char* code);

}  // namespace shardsim
