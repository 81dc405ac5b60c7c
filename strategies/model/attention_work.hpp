#pragma once

#include <cstdint>

// How much of the square of scores a rank's share of attention is. Nothing here costs more for more
// shares: plans ask for every block of every rank.
namespace shardsim {

/// Positions that heads are of: those of `count` neighbouring shares of every sample, each cut into
/// `parts` (see SequencePart), from share `first` on. Rows are [count, b, length of a share].
struct SequenceShares {
  int first = 0;
  int count = 1;
  int parts = 1;

  /// Positions of each sample.
  [[nodiscard]] std::int64_t length(std::int64_t seq_len) const { return seq_len / parts * count; }
};

/// Work for one sample and head.
struct AttentionWork {
  /// Twice the pairs of a query and a key that it sees; under a causal mask a run of positions sees
  /// half of itself, as is usual in counting flops (the diagonal's other half is not counted). All
  /// shares against all: seq_len^2, or twice that without a mask.
  std::int64_t twice_pairs = 0;
  std::int64_t query_rows = 0;  ///< Queries that see any key,
  std::int64_t key_rows = 0;    ///< and keys that any query sees.
};

/// REQUIRES: equal `parts`, of which two each divide seq_len, unless there is one.
[[nodiscard]] AttentionWork attention_work(std::int64_t seq_len, const SequenceShares& queries,
                                           const SequenceShares& keys, bool causal);

}  // namespace shardsim
