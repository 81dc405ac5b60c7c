#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardsim {

/// Copies within one memory; both ranges may be the same, overlap, or be empty and null.
inline void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace shardsim
