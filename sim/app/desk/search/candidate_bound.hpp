#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "sim/app/desk/search/candidate.hpp"
#include "sim/app/desk/search/layer_costs.hpp"

// What a candidate takes at least, without simulating it (docs/decisions/0044-search.md). Both
// bounds are sound: a run is never faster, and never needs less of the device: the allocator
// reserves what tensors need or more, and what is held outside it is known.
namespace shardsim {

struct Bound {
  std::int64_t step_ps = 0;
  std::int64_t device_bytes = 0;
};

/// Bounds of the candidates of one search. Keeps what candidates have in common; one thread's.
class BoundTable {
 public:
  /// `base` outlives it.
  explicit BoundTable(const Experiment& base);
  ~BoundTable();

  /// In closed form: the busiest pipeline rank with what fills the pipeline before it; weights,
  /// gradients and optimizer state as they are sharded, and the least of activations.
  [[nodiscard]] Bound quick(const Candidate& candidate);
  /// Plays the pipeline's schedule, with its messages, and counts what is in flight. Never below
  /// quick().
  [[nodiscard]] Bound close(const Candidate& candidate);

  [[nodiscard]] const LayerCosts& layers(const Candidate& candidate);

 private:
  struct Stages;
  struct Played;
  /// What a played pipeline depends on.
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
