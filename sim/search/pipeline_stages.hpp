#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/timeline.hpp"

#include "sim/search/layer_costs.hpp"

// A candidate's pipeline in terms of its layers' least costs, and its schedule played with them.
// Times are in picoseconds.
namespace shardsim {

struct PipelineStages {
  struct Stage {
    StageCosts costs;         ///< B in one piece: all of it is I.
    std::int64_t kept = 0;    ///< Bytes per microbatch,
    std::int64_t before = 0;  ///< and on top of that when its backward begins.
    std::int64_t waiting = 0;
    TokenTime forward_tokens = {};  ///< As ModuleCost has them.
    TokenTime backward_tokens = {};
    std::int64_t blocks = 0;
    std::int64_t first_block = 0;
  };
  std::vector<Stage> stages;
  const LayerCosts* layers = nullptr;
  const ScheduleRow* schedule = nullptr;
  std::int64_t ranks = 1;
  bool is_tied = false;
  bool prefetches = false;  ///< ZeRO-3 gathers the next unit while it computes the last one.
  /// A forward and a backward in one block take turns where they would wait for tokens.
  bool takes_turns = false;
  bool holds_back = false;  ///< Weight gradients, which then are computed while tokens travel.

  [[nodiscard]] std::int64_t rank_of(std::size_t stage) const;
  [[nodiscard]] WeightCounts weights_of(std::int64_t rank, const LayerWeights& weights) const;
  /// All that a stage does for a microbatch, in its least time; tokens may travel meanwhile.
  [[nodiscard]] std::int64_t computing_of(const Stage& stage) const;
  /// The least time of a block: a forward in one stage and a backward in another one.
  [[nodiscard]] std::int64_t block_of(const Stage& forward, const Stage& backward) const;
  /// The costs of a stage's modules, in model order.
  [[nodiscard]] std::vector<const ModuleCost*> modules_of(std::size_t stage) const;
};

[[nodiscard]] PipelineStages make_stages(const Experiment& base, const Candidate& candidate,
                                         const LayerCosts& layers);

struct PlayedPipeline {
  std::int64_t makespan = 0;
  std::int64_t message = 0;  ///< The least time of one between stages.
  // The largest memory of each pipeline rank: after a forward, and when a backward begins.
  std::vector<std::int64_t> after_forward;
  std::vector<std::int64_t> in_backward;
};

/// The schedule of a candidate, with its messages. Throws UsageError if it cannot run.
[[nodiscard]] PipelineSchedule lowered_schedule(const Candidate& candidate);

/// `message`: the least time of a message between stages. Throws UsageError for a schedule that
/// cannot run.
[[nodiscard]] PlayedPipeline play_pipeline(const Candidate& candidate, const PipelineStages& stages,
                                           std::int64_t message);

}  // namespace shardsim
