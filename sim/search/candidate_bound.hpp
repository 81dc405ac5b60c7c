#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/search/search_space.hpp"

// Lower bounds for a candidate, without simulating it (docs/decisions/0044-search.md). Both bounds
// are sound: a run is never faster, and never needs less of the device. The allocator reserves at
// least the memory of the tensors, and the memory held outside it is known. Bounds are made of the
// costs of single layers.
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

/// The cost of the embedding, one block and the head for one microbatch on a rank. The model's own
/// code runs on one rank, whose neighbours in tp and cp groups are always in time. A run can only
/// take longer, and hold more.
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

struct Bound {
  std::int64_t step_ps = 0;
  std::int64_t device_bytes = 0;
};

/// Bounds of the candidates of one search, for one thread. Caches values that candidates share.
class BoundTable {
 public:
  /// `base` outlives it.
  explicit BoundTable(const Experiment& base);
  ~BoundTable();

  /// In closed form: the busiest pipeline rank with the time to fill the pipeline before it;
  /// weights, gradients and optimizer state as they are sharded, and the smallest activations.
  [[nodiscard]] Bound quick(const Candidate& candidate);
  /// Plays the pipeline's schedule, with its messages, and counts microbatches in flight. Never
  /// below quick().
  [[nodiscard]] Bound close(const Candidate& candidate);

  [[nodiscard]] const LayerCosts& layers(const Candidate& candidate);

 private:
  struct Stages;
  struct Played;
  /// The inputs of a played pipeline.
  struct PipelineKey {
    LayerKey layers;
    std::int64_t pp;
    std::int64_t vpp;
    std::int64_t num_microbatches;
    std::string_view schedule;
    friend auto operator<=>(const PipelineKey&, const PipelineKey&) = default;
  };

  [[nodiscard]] Stages stages_of(const Candidate& candidate);
  [[nodiscard]] const Played& play(const Candidate& candidate, const Stages& stages);
  [[nodiscard]] std::int64_t message_ps(const Candidate& candidate, std::int64_t bytes);
  [[nodiscard]] std::int64_t sharding_ps(const Candidate& candidate, const Stages& stages);
  /// For each pipeline rank, the bytes outside the allocator on its first rank.
  [[nodiscard]] const std::vector<std::int64_t>& outside(const Candidate& candidate);
  [[nodiscard]] std::int64_t state_bytes(const Candidate& candidate,
                                         const WeightCounts& weights) const;
  [[nodiscard]] std::int64_t gathered_bytes(const Candidate& candidate,
                                            std::int64_t elements) const;

  const Experiment& experiment_;
  const Scenario& base_;
  const Cluster& cluster_;
  std::unique_ptr<NetworkModel> network_;
  std::map<LayerKey, LayerCosts> layers_;
  std::map<PipelineKey, Played> played_;
  std::map<std::array<std::int64_t, 7>, std::vector<std::int64_t>> outside_;
};

}  // namespace shardsim
