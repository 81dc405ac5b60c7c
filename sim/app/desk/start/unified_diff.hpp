#pragma once

#include <string>

namespace shardsim {

/// What `diff -u` prints of two texts, three lines of context each, as patch takes it; "" if they
/// are equal. `name` stands behind "a/" and "b/".
[[nodiscard]] std::string unified_diff(const std::string& before, const std::string& after,
                                       const std::string& name);

}  // namespace shardsim
