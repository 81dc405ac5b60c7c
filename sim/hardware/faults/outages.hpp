#pragma once

#include <span>

#include "sim/hardware/faults/faults.hpp"

// The end of an operation on flapping links. Whole picoseconds, so that outages are exact.
namespace shardsim {

/// The first moment at which all links have been up together for `duration` since `start`: nothing
/// moves while any of them is down. `start` itself if there is nothing to move. Throws LimitError
/// E1396 where outages take turns for so long that no end is found.
[[nodiscard]] Time end_with_outages(std::span<const FlappingLink> links, Time start, Time duration);

}  // namespace shardsim
