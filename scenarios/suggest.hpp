#pragma once

// "Did you mean ...?" for keys, choices, presets and metrics.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardsim {

/// Single-character edits (insert, delete, replace, swap neighbours) from `a` to `b`.
/// Source: Damerau 1964, in the "optimal string alignment" form.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` if it is near enough to be a slip, else "". Ties: the first.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `words` as `"a", "b" or "c"`.
std::string one_of_list(const std::vector<std::string>& words);

/// The hint for an unknown key of a section ("" is the document).
struct KeyHint {
  std::string label;  // beside the carets
  std::string help;
};
KeyHint hint_for_key(const std::string& section, const std::string& key);

}  // namespace shardsim
