#pragma once

#include <cstdint>
#include <initializer_list>

#include "strategies/model/layer.hpp"

// The positions of a sample in chunks, as recurrences with a decay are computed: within a chunk by
// matrix products, from chunk to chunk by a state. Source: Dao and Gu, "Transformers are SSMs"
// (2024).
namespace shardsim {

/// Chunks of `size` positions; the last has what is left.
struct SequenceChunks {
  std::int64_t seq_len = 0;
  std::int64_t size = 0;

  [[nodiscard]] std::int64_t count() const { return (seq_len + size - 1) / size; }
  [[nodiscard]] std::int64_t first(std::int64_t chunk) const { return chunk * size; }
  [[nodiscard]] std::int64_t length(std::int64_t chunk) const {
    return chunk + 1 < count() ? size : seq_len - first(chunk);
  }
  /// Sums over all chunks of their length squared and cubed. Throw LimitError as checked_product.
  [[nodiscard]] std::int64_t squares() const;
  [[nodiscard]] std::int64_t cubes() const;
};

/// Throws LimitError as checked_product does.
[[nodiscard]] std::int64_t checked_sum(std::initializer_list<std::int64_t> terms);

}  // namespace shardsim
