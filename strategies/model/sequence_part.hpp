#pragma once

#include <cstdint>

// Shares of the positions of samples.
namespace shardsim {

/// Which positions of every sample a rank computes with: all of them, or, with context parallelism,
/// one of `parts` shares. A sample is cut into 2 parts runs, of which share i has number i and
/// number 2 parts - 1 - i, so that under a causal mask all shares are the same work ("zigzag").
/// Source: Llama 3 (Dubey et al. 2024), section 3.3.2.
struct SequencePart {
  int index = 0;
  int parts = 1;

  friend bool operator==(const SequencePart&, const SequencePart&) = default;

  /// Positions of the share of `seq_len`. REQUIRES: 2 parts divides seq_len, or parts is 1.
  [[nodiscard]] std::int64_t length(std::int64_t seq_len) const { return seq_len / parts; }
  /// Position in the sample of the share's `local`-th, both counted from 0.
  [[nodiscard]] std::int64_t position_of(std::int64_t local, std::int64_t seq_len) const {
    if (parts == 1) return local;
    const std::int64_t run = seq_len / (2 * std::int64_t{parts});
    const std::int64_t number = local < run ? index : 2 * parts - 1 - index;
    return number * run + local % run;
  }
  /// The same for tokens, which are counted through samples: the share's `token`-th is of sample
  /// token / length(), and samples have seq_len each.
  [[nodiscard]] std::int64_t token_of(std::int64_t token, std::int64_t seq_len) const {
    if (parts == 1) return token;
    const std::int64_t own = length(seq_len);
    return token / own * seq_len + position_of(token % own, seq_len);
  }
};

/// Positions that heads are of: those of `count` neighbouring shares of every sample, each cut into
/// `parts` (see SequencePart), from share `first` on. Rows are [count, b, length of a share].
struct SequenceShares {
  int first = 0;
  int count = 1;
  int parts = 1;

  /// Positions of each sample.
  [[nodiscard]] std::int64_t length(std::int64_t seq_len) const { return seq_len / parts * count; }
};

}  // namespace shardsim
