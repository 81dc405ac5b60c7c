#pragma once

#include <cstdint>

#include "sim/kernel/memory_ledger.hpp"

#include "sim/hardware/network_model.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/search/candidate.hpp"

// The cost of the embedding, one block and the head for one microbatch on a rank. The model's own
// code runs on one rank, whose neighbours in tp and cp groups are always in time. A run can only
// take longer, and hold more.
namespace shardsim {

/// The cost of one module: times in picoseconds, sizes in bytes.
struct ModuleCost {
  std::int64_t forward = 0;
  std::int64_t backward = 0;         ///< B,
  std::int64_t backward_input = 0;   ///< or I
  std::int64_t backward_weight = 0;  ///< and W.
  std::int64_t waiting = 0;          ///< For other ranks, in forward and backward.
  std::int64_t kept = 0;             ///< From forward to backward.
  std::int64_t transient = 0;        ///< On top of the memory held when its backward begins.

  [[nodiscard]] std::int64_t both() const { return forward + backward; }
};

/// Elements of a module's weights on one rank.
struct WeightCounts {
  std::int64_t dense = 0;
  std::int64_t expert = 0;  ///< If other ranks have copies of them (ep > 1).
};

struct LayerCosts {
  ModuleCost embedding;
  ModuleCost block;
  ModuleCost head;
  std::int64_t message = 0;  ///< Bytes that a stage sends to the next, per microbatch.
  WeightCounts embedding_weights;
  WeightCounts dense_block_weights;  ///< In blocks that have no experts.
  WeightCounts block_weights;
  WeightCounts head_weights;    ///< Without a tied table of tokens,
  std::int64_t tied_table = 0;  ///< which has this many elements.
};

/// The fields of a candidate that determine its layer costs.
struct LayerKey {
  explicit LayerKey(const Candidate& candidate)
      : tp(candidate.tp),
        cp(candidate.cp),
        ep(candidate.ep),
        micro_batch_size(candidate.micro_batch_size),
        sequence_parallel(candidate.sequence_parallel),
        recompute(candidate.recompute) {}
  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;

  std::int64_t tp;
  std::int64_t cp;
  std::int64_t ep;
  std::int64_t micro_batch_size;
  bool sequence_parallel;
  Recompute recompute;
};

/// `network`: that of the machine of `base`. Blocks with experts are counted as their attention,
/// and their products at the device's peak: the routing of tokens is not known here.
[[nodiscard]] LayerCosts probe_layers(const Experiment& base, NetworkModel& network,
                                      const LayerKey& key);

}  // namespace shardsim
