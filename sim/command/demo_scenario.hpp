#pragma once

#include <string>

namespace shardsim {

/// The scenario of `shardsim demo`, with its comments. It names presets, as files do.
[[nodiscard]] const std::string& demo_scenario();

}  // namespace shardsim
