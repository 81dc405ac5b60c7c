#pragma once

#include <string>

namespace shardsim {

/// A page in Markdown: for each built-in machine, which prices come from measurements of it, which
/// from a neighbour and which from its data sheet. `presets --prices` prints it, and
/// docs/guide/prices.md is a copy. Throws ScenarioError if a preset cannot be read.
[[nodiscard]] std::string price_page();

}  // namespace shardsim
