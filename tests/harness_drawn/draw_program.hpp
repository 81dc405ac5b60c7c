#pragma once

#include <rapidcheck.h>

#include "tests/harness_drawn/drawn_program.hpp"

namespace shardsim::drawn {

/// Programs of 2 to 8 ranks and 1 to 14 statements. They shrink to fewer statements, fewer ranks,
/// and plainer ones.
[[nodiscard]] rc::Gen<DrawnProgram> drawn_programs();

}  // namespace shardsim::drawn
