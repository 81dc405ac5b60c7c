#pragma once

#include <cstddef>

namespace shardsim {

/// The columns of the terminal at file descriptor `descriptor`: COLUMNS if that is set, else what
/// the terminal says, else 100. At least 40. 0 if it is no terminal: text is not broken there, as
/// programs and logs read it line by line.
[[nodiscard]] std::size_t terminal_width(int descriptor);

}  // namespace shardsim
