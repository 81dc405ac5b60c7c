#pragma once

#include <span>
#include <string_view>

#include "strategies/gradient_sync/data_parallel.hpp"
#include "strategies/mesh.hpp"

// The named optimizers and models of the specification: each is one choice per axis. They differ in
// nothing else. A new name is one row in the table of parallel_choice.cpp.
namespace shardsim {

struct ParallelChoice {
  std::string_view name;
  int zero_stage = 0;
  int pp = 1;
  int tp = 1;
  int dp = -1;           ///< -1: what the world leaves.
  int dp_replicate = 1;  ///< Part of dp; the rest shards. With ZeRO stage 0 it changes nothing.
  RankOrder order = RankOrder::tp_dp_pp;
  int cp = 1;
  int ep = 1;  ///< Ranks that share experts; it regroups ranks of the other axes, and adds none.
  // Choices that change the algorithm, one at most; see other_data_parallelism.hpp.
  LocalTraining local;
  GradientCompression compression;
  int max_staleness = 0;
};

/// A row of the table; 0 means "as many as there are ranks".
struct NamedChoice {
  std::string_view name;
  int zero_stage;
  int pp;
  int tp;
};
/// ddp, zero1, zero2, zero3, fsdp, tensor_parallel, pipeline_parallel, hybrid_sharded.
[[nodiscard]] std::span<const NamedChoice> named_choices();

/// The choice of that name for a world of so many ranks; UsageError naming all, otherwise.
[[nodiscard]] ParallelChoice choice_of(std::string_view name, int world_size);

/// Pipeline, tensor and data parallelism at once, data ranks fastest, as the specification counts:
/// rank = (pp * tp_size + tp) * dp_size + dp.
[[nodiscard]] ParallelChoice hybrid_sharded(int pp = 1, int tp = 1, int dp = -1,
                                            int zero_stage = 0);

/// The mesh of a choice in a world. Throws UsageError unless pp * tp * cp * dp ranks are there,
/// each of them positive, dp_replicate divides dp, and ep the ranks of a stage and replica.
[[nodiscard]] MeshShape mesh_of(const ParallelChoice& choice, int world_size);

}  // namespace shardsim
