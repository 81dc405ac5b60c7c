#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/search/priced_group.hpp"
#include "sim/search/search_space.hpp"

// The least costs of single layers on a rank, from which a candidate's bounds are made.
namespace shardsim {

/// I and W of a backward; if it is B, that is all I.
struct BackwardParts {
  std::int64_t input = 0;
  std::int64_t weight = 0;
};

/// A gradient of a module is complete in its backward (B).
struct GradientTime {
  std::size_t place = 0;   ///< The parameter's, among the module's.
  std::int64_t at = 0;     ///< Since the backward's begin.
  std::int64_t since = 0;  ///< Since the gradient before it, without waiting that may be hidden.
                           ///< Whoever is told of a gradient may wait, too.
};

/// The cost of one module: times in picoseconds, sizes in bytes.
struct ModuleCost {
  std::int64_t forward = 0;
  std::int64_t backward = 0;         ///< B,
  std::int64_t backward_input = 0;   ///< or I
  std::int64_t backward_weight = 0;  ///< and W.
  std::int64_t waiting = 0;          ///< For other ranks, in forward and backward, W too:
  std::int64_t waiting_at_once = 0;  ///< the part beside which nothing can be computed.
  TokenTime forward_tokens = {};     ///< The part of both that experts' tokens take.
  TokenTime backward_tokens = {};
  std::int64_t kept = 0;       ///< From forward to backward.
  std::int64_t transient = 0;  ///< On top of the memory held when its backward begins.
  /// In their order. A table of tokens that the head reads is the embedding's.
  std::vector<GradientTime> gradients = {};
  bool stands_for_another = false;   ///< Its parameters are not those of the run.
  std::int64_t after_gradients = 0;  ///< As `since`, from the last of them to the end.

  /// As a schedule runs them. If it has both B and I + W, the parts add up to at most B.
  [[nodiscard]] BackwardParts parts(BackwardCut cut) const;
};

/// Elements of a module's weights on one rank.
struct WeightCounts {
  std::int64_t dense = 0;
  std::int64_t expert = 0;  ///< If other ranks have copies of them (ep x etp > 1).
};

/// The cost of the embedding, a block of each kind and the head for one microbatch on a rank. The
/// model's own code runs on one rank, whose neighbours in tp, cp, ep and etp groups are always in
/// time.
/// A run can only take longer, and hold more.
struct LayerCosts {
  ModuleCost embedding;
  std::vector<ModuleCost> blocks;  ///< One of each kind,
  std::vector<int> kind_of;        ///< and the kind of each block: see BlockKinds.
  ModuleCost head;
  std::int64_t message = 0;  ///< Bytes that a stage sends to the next, per microbatch.

  [[nodiscard]] const ModuleCost& block(std::int64_t number) const {
    return blocks[static_cast<std::size_t>(kind_of[static_cast<std::size_t>(number)])];
  }
};

/// The weights of the modules on one rank.
struct LayerWeights {
  WeightCounts embedding;
  std::vector<WeightCounts> blocks;  ///< One of each kind: see BlockKinds.
  WeightCounts head;                 ///< Without a tied table of tokens,
  std::int64_t tied_table = 0;       ///< which has this many elements.

  /// Elements that no block has fewer of, without those of experts.
  [[nodiscard]] std::int64_t smallest_block() const {
    std::int64_t smallest = blocks.front().dense;
    for (const WeightCounts& block : blocks) smallest = std::min(smallest, block.dense);
    return smallest;
  }
};

/// The fields of a candidate that determine its layer costs. An ep of 0 stands for any ep and etp.
struct LayerKey {
  explicit LayerKey(const Candidate& candidate)
      : tp(candidate.tp),
        cp(candidate.cp),
        ep(candidate.ep),
        etp(candidate.etp),
        micro_batch_size(candidate.micro_batch_size),
        sequence_parallel(candidate.sequence_parallel),
        recompute(candidate.recompute) {}
  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;

  std::int64_t tp;
  std::int64_t cp;
  std::int64_t ep;
  std::int64_t etp;
  std::int64_t micro_batch_size;
  bool sequence_parallel;
  Recompute recompute;
};

/// `network`: that of the machine of `base`. If it is not known how many tokens go to each expert,
/// or ep is 0, a block with experts is counted as its attention, and its products at the device's
/// peak.
[[nodiscard]] LayerCosts probe_layers(const Experiment& base, NetworkModel& network,
                                      const LayerKey& key);

/// By its tp, ep and etp.
[[nodiscard]] LayerWeights count_weights(const Experiment& base, const Candidate& candidate);

}  // namespace shardsim
