#pragma once

#include <string>

namespace shardsim {

/// A page in Markdown: what of each built-in model is modelled, and what is not. `presets --page`
/// prints it, and docs/guide/model-presets.md is a copy. Throws ScenarioError if one cannot be
/// read.
[[nodiscard]] std::string preset_page();

}  // namespace shardsim
