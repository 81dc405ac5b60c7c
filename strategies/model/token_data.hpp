#pragma once

#include <cstdint>

#include "sim/kernel/random.hpp"

#include "strategies/model/batch.hpp"
#include "strategies/model/model.hpp"

// The synthetic data set: endless, and random access. A value is a function of the seed, what it is
// for, and the global index of its sample and position, so ranks draw their own share.
namespace shardsim {

struct TokenData {
  std::int64_t vocab_size = 1;
  std::int64_t seq_len = 1;
  std::uint64_t seed = 0;
  double ignore_fraction = 0.0;
  SequencePart part = {};
};

/// Samples [first, first + count): each has s + 1 tokens; inputs are the first s, targets the last
/// s, so that every position predicts its successor. The batch has those at the positions of
/// `part`.
/// `depths`: tokens ahead for multi-token prediction at as many depths.
[[nodiscard]] Batch make_token_batch(Runtime& runtime, const TokenData& data, std::int64_t first,
                                     std::int64_t count, int depths = 0);

/// Whether the loss counts the target with this index (sample * positions + position).
class KeptTargets {
 public:
  KeptTargets(std::uint64_t seed, double ignore_fraction)
      : random_(seed, "data.ignored"), ignore_fraction_(ignore_fraction) {}
  [[nodiscard]] bool operator()(std::int64_t index) const {
    return random_.uniform(static_cast<std::uint64_t>(index)) >= ignore_fraction_;
  }

 private:
  RandomStream random_;
  double ignore_fraction_;
};

/// How many of the targets of samples [first, first + count) it keeps, at the positions of
/// `data.part`, or so many positions further ahead in the same sample. The vocabulary does not
/// count.
[[nodiscard]] std::int64_t count_kept(const TokenData& data, std::int64_t first, std::int64_t count,
                                      int ahead = 0);

}  // namespace shardsim
