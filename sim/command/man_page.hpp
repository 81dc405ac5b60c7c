#pragma once

#include <string>

#include "sim/command/command_tree.hpp"

namespace shardsim {

/// shardsim(1), in the man macros: every verb with its options and examples.
[[nodiscard]] std::string man_page(const CommandTree& tree);

}  // namespace shardsim
