#pragma once

#include <string>

#include "scenarios/model_spec.hpp"

namespace shardsim {

/// The model of a built-in preset. Throws ScenarioError if it cannot be read.
[[nodiscard]] ModelSpec preset_model(const std::string& preset);

/// A page in Markdown: what of each built-in model is modelled, and what is not. `presets --page`
/// prints it, and docs/guide/model-presets.md is a copy. Throws ScenarioError if one cannot be
/// read.
[[nodiscard]] std::string preset_page();

}  // namespace shardsim
