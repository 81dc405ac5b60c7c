#pragma once

#include <string_view>

namespace shardsim {

// The version of this build, as "major.minor.patch". Results are a pure function of scenario, seed
// and this version, so every result names it.
std::string_view version();

}  // namespace shardsim
