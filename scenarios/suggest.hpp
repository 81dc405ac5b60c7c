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

/// The candidates that `word` begins, up to a "-", "." or "_": "torchtitan" begins
/// "torchtitan-2024" and "torchtitan-2025". None if there are more than a line holds.
[[nodiscard]] std::vector<std::string> names_of_family(std::string_view word,
                                                       const std::vector<std::string>& candidates);

/// The family or else those near enough to be meant, the nearest first; at most five.
[[nodiscard]] std::vector<std::string> near_names(std::string_view word,
                                                  const std::vector<std::string>& candidates);

/// The way out for an unknown preset of `folder` ("models" or "systems"): the near names, and the
/// command that lists all. There are too many presets to print them under each error.
[[nodiscard]] std::string help_for_preset(std::string_view word,
                                          const std::vector<std::string>& names,
                                          const std::string& folder);

/// The family or else the nearest as a label beside the carets: `did you mean "tp"?`; "" if there
/// is neither.
std::string near_label(std::string_view word, const std::vector<std::string>& candidates);

/// `words` as `"a", "b" or "c"`.
std::string one_of_list(const std::vector<std::string>& words);

/// The hint for an unknown key of a section ("" is the document).
struct KeyHint {
  std::string label;  // beside the carets
  std::string help;
};
KeyHint hint_for_key(const std::string& section, const std::string& key);

/// The path of the field that an option of another program is called like: "parallelism.tp" for
/// "--tp" and for "--tensor-model-parallel-size". "" if there is none.
[[nodiscard]] std::string field_of_word(std::string_view word);

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
