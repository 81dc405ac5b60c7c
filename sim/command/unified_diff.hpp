#pragma once

#include <string>

namespace shardsim {

/// The output of `diff -u` for two texts, three lines of context each, as patch takes it; "" if
/// they are equal. `name` follows "a/" and "b/".
[[nodiscard]] std::string unified_diff(const std::string& before, const std::string& after,
                                       const std::string& name);

}  // namespace shardsim
