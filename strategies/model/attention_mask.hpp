#pragma once

#include <cstdint>

#include "strategies/model/sequence_part.hpp"

// Which keys a query sees, and how much of the square of attention's scores that is. Nothing here
// costs more for more shares: plans ask for every block of every rank.
namespace shardsim {

enum class AttentionReach : std::uint8_t {
  causal,   ///< Its own position and those before.
  sliding,  ///< The last `size` positions, its own among them. Source: Beltagy et al.,
            ///< "Longformer" (2020); Jiang et al., "Mistral 7B" (2023).
  chunked,  ///< The same as causal, within its own chunk of `size` positions. Source: transformers'
            ///< Llama4TextConfig.attention_chunk_size.
  all,      ///< Every position: no mask.
};

struct AttentionMask {
  AttentionReach reach = AttentionReach::causal;
  std::int64_t size = 0;  ///< Positions, above 0, for reaches that have a size; else 0.

  friend bool operator==(const AttentionMask&, const AttentionMask&) = default;

  /// Positions in the sample, counted from 0.
  [[nodiscard]] bool shows(std::int64_t query, std::int64_t key) const {
    if (reach == AttentionReach::all) return true;
    if (key > query) return false;
    if (reach == AttentionReach::sliding) return query - key < size;
    return reach != AttentionReach::chunked || query / size == key / size;
  }
};

/// Work for one sample and head.
struct AttentionWork {
  /// Twice the pairs of a query and a key that it sees, as areas: the diagonal and the edge of a
  /// window count by half, as is usual in counting flops. Whole samples of s positions: 2 s^2
  /// without a mask, s^2 causal, 2 w s - w^2 within a window w up to s, and a s in chunks of a that
  /// divide s.
  std::int64_t twice_pairs = 0;
  std::int64_t query_rows = 0;  ///< Queries that see any key,
  std::int64_t key_rows = 0;    ///< and keys that any query sees.
};

/// REQUIRES: equal `parts`, of which two each divide seq_len, unless there is one.
[[nodiscard]] AttentionWork attention_work(std::int64_t seq_len, const SequenceShares& queries,
                                           const SequenceShares& keys, const AttentionMask& mask);

}  // namespace shardsim
