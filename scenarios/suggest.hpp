#pragma once

// "Did you mean ...?" for keys, choices, presets and metrics, and corrections of a scenario's text
// without asking: rewrites that leave no doubt about the meaning. Everything else is left to the
// reader of the error. A fix here is a promise: the field takes its value.

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

/// Single-character edits (insert, delete, replace, swap neighbours) from `a` to `b`.
/// Source: Damerau 1964, in the "optimal string alignment" form.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` if it is near enough to be a slip, else "". Ties: the first.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The nearest as a label beside the carets: `did you mean "tp"?`; "" if none is near.
std::string near_label(std::string_view word, const std::vector<std::string>& candidates);

/// `words` as `"a", "b" or "c"`.
std::string one_of_list(const std::vector<std::string>& words);

/// The hint for an unknown key of a section ("" is the document).
struct KeyHint {
  std::string label;  // beside the carets
  std::string help;
};
KeyHint hint_for_key(const std::string& section, const std::string& key);

/// An unknown key of `object`, the section `section`: another program's name for the same quantity
/// and unit, or a slip near one key only. `claimed`: keys that fixes of this object write already;
/// gets the new one. Nothing if the key is written already, or would not take the value.
[[nodiscard]] Fix fix_of_key(const std::string& section, const JsonMember& member,
                             const JsonObject& object, std::set<std::string>& claimed);

/// A word outside `choices`: another program's word for one, or a slip near one only.
[[nodiscard]] Fix fix_of_choice(const JsonValue& value, const std::vector<std::string>& choices);

/// A number or truth in quotes: the same without them, if `accepts` takes that.
[[nodiscard]] Fix fix_of_quotes(const JsonValue& value,
                                const std::function<bool(const JsonValue& bare)>& accepts);

/// The missing schema_version, as the first key of the document that `document` begins.
[[nodiscard]] Fix fix_of_version(const Span& document);

}  // namespace shardsim
