#pragma once

#include <cstdint>

#include <shardsim/check.hpp>

// Gossip data parallelism: instead of an all_reduce of gradients, each rank trains on samples of
// its own and then averages its weights with those of its left neighbour on a ring. Ranks never
// agree exactly, and never wait for more than one other rank. Source of the idea: Lian et al., "Can
// Decentralized Algorithms Outperform Centralized Algorithms?" (NeurIPS 2017).

/// Mistakes to make on purpose.
enum class Bug {
  none,
  unbatched,  ///< Sends, and receives only then.
  third,      ///< Takes a third of the neighbour's weights, not half.
};

struct Gossip {
  std::int64_t weights = 6;
  std::int64_t samples = 4;  ///< Of one rank in one step.
  double learning_rate = 0.125;
  Bug bug = Bug::none;
};

/// The strategy: replaces `weights` by the mean of this rank's and its left neighbour's.
void average_with_neighbour(shardsim::Runtime& runtime, shardsim::Communicator& ring,
                            const shardsim::Tensor& weights, Bug bug = Bug::none);

/// Payload bytes that a rank sends in one step: all its weights, once.
inline std::int64_t bytes_per_step(std::int64_t weight_bytes, int ranks) {
  return ranks == 1 ? 0 : weight_bytes;
}

/// Training with it, as every rank runs it.
[[nodiscard]] shardsim::Program gossip_program(const Gossip& gossip);
/// The same algorithm for `workers` workers without any communication, to hold it against.
[[nodiscard]] shardsim::Program gossip_reference(const Gossip& gossip, int workers);
/// How the one is held against the other. The name tells apart what is run again by a replay token.
[[nodiscard]] shardsim::CheckOptions gossip_options(const Gossip& gossip, int workers);
