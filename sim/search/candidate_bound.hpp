#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/search/layout_space.hpp"
#include "sim/search/pipeline_stages.hpp"

// Lower bounds for a candidate, without simulating it (docs/decisions/0044-search.md). Both bounds
// are sound: a run is never faster, and never needs less of the device. The allocator reserves at
// least the memory of the tensors, and the memory held outside it is known. Bounds are made of the
// costs of single layers.
namespace shardsim {

struct Bound {
  std::int64_t step_ps = 0;
  std::int64_t device_bytes = 0;
};

/// Bounds of the candidates of one search, for one thread. Caches values that candidates share.
class BoundTable {
 public:
  /// `base` outlives it.
  explicit BoundTable(const Experiment& base);

  /// No more than quick() of each candidate that differs from this one in its choice of data alone.
  /// For each ep and etp in question, `data` has the choice that needs no more memory than any
  /// other. REQUIRES: none of them has a lower zero_stage than `candidate`.
  [[nodiscard]] Bound least(const Candidate& candidate, const std::vector<DataChoice>& data);
  /// In closed form: the busiest pipeline rank with the time to fill the pipeline before it;
  /// weights, gradients and optimizer state as they are sharded, and the smallest activations.
  [[nodiscard]] Bound quick(const Candidate& candidate);
  /// Plays the pipeline's schedule, if plays() it, with its messages, and counts microbatches in
  /// flight. Never below quick().
  [[nodiscard]] Bound close(const Candidate& candidate);

  /// Whether the candidate's schedule is short enough to be played in part of a second.
  [[nodiscard]] static bool plays(const Candidate& candidate);

  /// The costs of its stages, and its schedule played with them, for StepEnds. The stages are valid
  /// as long as this table.
  [[nodiscard]] PipelineStages stages_of(const Candidate& candidate);
  [[nodiscard]] const PlayedPipeline& play(const Candidate& candidate,
                                           const PipelineStages& stages);

 private:
  /// The inputs of a played pipeline.
  struct PipelineKey {
    LayerKey layers;
    std::int64_t pp;
    std::int64_t vpp;
    std::int64_t num_microbatches;
    std::string_view schedule;
    bool takes_turns;
    friend auto operator<=>(const PipelineKey&, const PipelineKey&) = default;
  };

  [[nodiscard]] const LayerCosts& layers(const Candidate& candidate);
  [[nodiscard]] const LayerWeights& weights(const Candidate& candidate);
  [[nodiscard]] std::int64_t quick_ps(const Candidate& candidate,
                                      const PipelineStages& stages) const;
  [[nodiscard]] DType weight_dtype() const;
  /// For each pipeline rank, its activations before its first backward, at least.
  [[nodiscard]] std::vector<std::int64_t> least_kept(const Candidate& candidate,
                                                     const PipelineStages& stages) const;
  [[nodiscard]] std::int64_t message_ps(const Candidate& candidate, std::int64_t bytes);
  [[nodiscard]] std::int64_t sharding_ps(const Candidate& candidate, const PipelineStages& stages);
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
  std::map<std::array<std::int64_t, 3>, LayerWeights> weights_;  // By tp, ep and etp.
  std::map<PipelineKey, PlayedPipeline> played_;
  std::map<std::array<std::int64_t, 8>, std::vector<std::int64_t>> outside_;
};

}  // namespace shardsim
