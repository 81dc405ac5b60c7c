#pragma once

#include <cstddef>

namespace shardsim {

/// A rank, stage, chunk or cell as the index of a list.
[[nodiscard]] constexpr std::size_t index_of(int number) {
  return static_cast<std::size_t>(number);
}

}  // namespace shardsim
