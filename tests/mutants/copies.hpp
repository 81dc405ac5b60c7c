#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/tensor.hpp"

// Copies and changes of buffers for faults, outside every ledger.
namespace shardsim::test {

/// A list of as many elements, with data if the tensor has any.
inline Tensor empty_like(const Tensor& tensor) {
  return Tensor::allocate(nullptr, MemoryCategory::comm, {tensor.numel()}, tensor.dtype(),
                          !tensor.has_data());
}

/// As many bytes as both have.
inline void copy(const Tensor& to, const Tensor& from) {
  if (!from.has_data()) return;
  const std::int64_t count = std::min(to.num_bytes(), from.num_bytes());
  std::memcpy(to.data(), from.data(), static_cast<std::size_t>(count));
}

inline Tensor flat_copy_of(const Tensor& tensor) {
  Tensor result = empty_like(tensor);
  copy(result, tensor);
  return result;
}

inline void scale(const Tensor& tensor, double factor) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, factor * tensor.get(i));
}

}  // namespace shardsim::test
