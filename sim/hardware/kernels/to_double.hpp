#pragma once

#include <cstdint>

namespace shardsim {

/// A count as a factor of a price. Exact up to 2^53.
[[nodiscard]] inline double to_double(std::int64_t value) { return static_cast<double>(value); }

}  // namespace shardsim
