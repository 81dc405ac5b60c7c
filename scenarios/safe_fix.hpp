#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"

// Corrections of a scenario's text without asking: rewrites that leave no doubt about the meaning.
// Everything else is left to the reader of the error. A fix here is a promise: the field takes its
// value.
namespace shardsim {

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
