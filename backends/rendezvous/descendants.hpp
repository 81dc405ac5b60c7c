#pragma once

#include <vector>

namespace shardsim {

/// The processes that `pid` has started and those that these have, as /proc shows them now.
[[nodiscard]] std::vector<int> descendants_of(int pid);

}  // namespace shardsim
