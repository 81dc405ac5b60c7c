#pragma once

#include <vector>

#include "sim/console/verb.hpp"

namespace shardsim {

/// Every verb, in the order in which --help lists those of a group. The first is run if the command
/// line names none.
[[nodiscard]] std::vector<Verb> all_verbs();

}  // namespace shardsim
