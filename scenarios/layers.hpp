#pragma once

#include <string>
#include <vector>

#include "scenarios/json_value.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

// A scenario is made of layers: a preset at the bottom, what the file says over it, and --set flags
// on top. They are merged as JSON values that keep their places, before anything is read from them.
namespace shardsim {

/// Sets `a.b=value` in the document, one flag after the other. The value is JSON, or else a string.
/// Flags are kept in `texts`, because the values point into them.
void apply_overrides(JsonValue& document, const std::vector<std::string>& overrides,
                     SourceTexts& texts, ProblemList& problems);

/// Puts the presets that `document` names below it; a section that is a string names one. Returns
/// the sections whose preset could not be used. `directories` are searched in their order.
std::vector<std::string> merge_presets(JsonValue& document,
                                       const std::vector<std::string>& directories,
                                       SourceTexts& texts, ProblemList& problems);

}  // namespace shardsim
