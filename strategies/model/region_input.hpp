#pragma once

#include <cstdint>

namespace shardsim {

/// A tensor that a region of tensor parallelism reads (see TensorParallel) enters it, or joins
/// while it is open. Backward, joining ones come first, and the one that entered leaves it.
enum class RegionInput : std::uint8_t { enters, joins };

}  // namespace shardsim
