#pragma once

#include "strategies/mesh.hpp"
#include "strategies/model/low_precision.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/scenario.hpp"

// The places of ranks and of pipeline stages in a scenario.
namespace shardsim {

/// The axes of a resolved scenario. The schedule decides whether stages are placed in a V.
[[nodiscard]] inline MeshShape mesh_shape_of(const ParallelismSpec& parallelism) {
  return {
      .dp_shard = static_cast<int>(parallelism.dp_shard),
      .dp_replicate = static_cast<int>(parallelism.dp_replicate),
      .tp = static_cast<int>(parallelism.tp),
      .pp = static_cast<int>(parallelism.pp),
      .cp = static_cast<int>(parallelism.cp),
      .ep = static_cast<int>(parallelism.ep),
      .etp = static_cast<int>(parallelism.etp),
      .order = parallelism.rank_order == "dp-tp-pp" ? RankOrder::dp_tp_pp : RankOrder::tp_dp_pp};
}

/// The nodes that an expert group of neighbouring ranks lies on, where a token goes once to each of
/// them; 0 where it goes once to each expert, or where the group lies on nodes unevenly.
[[nodiscard]] inline int dispatch_nodes_of(const ParallelismSpec& parallelism,
                                           std::int64_t gpus_per_node) {
  if (parallelism.expert_dispatch != ExpertDispatch::per_node || parallelism.ep == 1) return 0;
  if (gpus_per_node % parallelism.ep == 0) return 1;
  if (parallelism.ep % gpus_per_node != 0) return 0;
  return static_cast<int>(parallelism.ep / gpus_per_node);
}

/// How tokens that go once to each node are quantized in an expert group of `ep` ranks.
[[nodiscard]] inline ScalingRecipe dispatch_recipe_of(const ParallelismSpec& parallelism,
                                                      std::int64_t ep) {
  const bool travels = ep > 1 && parallelism.expert_dispatch == ExpertDispatch::per_node;
  if (!travels || parallelism.expert_payload == ExpertPayload::training) return ScalingRecipe::none;
  return parallelism.expert_payload == ExpertPayload::mxfp8 ? ScalingRecipe::mxfp8
                                                            : ScalingRecipe::blockwise;
}

/// The row of parallelism.schedule; that of a single stage for "none", for a schedule from a file
/// and before the name is resolved. REQUIRES: the name is known.
[[nodiscard]] inline const ScheduleRow& schedule_row_of(std::string_view name) {
  static constexpr ScheduleRow kSingleStage;
  const bool is_named = !name.empty() && name != "none" && name != kScheduleFromFile;
  return is_named ? schedule_row(name) : kSingleStage;
}

/// The placement of stages on this scenario's pipeline ranks; `loop` if the schedule is not
/// resolved yet. REQUIRES: the schedule's name is known.
[[nodiscard]] inline Placement stage_placement_of(const Scenario& s) {
  if (s.own_schedule != nullptr) return s.own_schedule->placement;
  return schedule_row_of(s.parallelism.schedule).placement;
}

/// Whether a forward and a backward of the schedule are one block somewhere. REQUIRES: as above.
[[nodiscard]] inline bool has_blocks(const Scenario& s) {
  if (s.own_schedule != nullptr) return s.own_schedule->has_blocks();
  return schedule_row_of(s.parallelism.schedule).overlaps;
}
/// Whether the two of a block take turns where tokens travel.
[[nodiscard]] inline bool takes_turns(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  return has_blocks(s) && s.model.num_experts > 0 && p.ep > 1 && p.zero_stage < 3;
}

}  // namespace shardsim
