#pragma once

#include <functional>
#include <memory>
#include <string>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "sim/harness/rank_context.hpp"

// A user's own choice for one axis of shardsim's training loop: the way ranks keep one model, or
// the order in which a pipeline runs. The rest of the loop, the model, the optimizer and the
// reference are shardsim's.
namespace shardsim {

struct TrainingStrategy {
  /// How so many ranks are laid out, where the check has no layouts of its own; empty: all of them
  /// data parallel (dp_shard). One rank is one rank on every axis.
  std::function<MeshShape(int ranks)> mesh;
  /// Makes a rank's synchronization; empty: that of `zero_stage`, whose chunks SyncPlan::layout has
  /// in any case. On one rank, which is the reference, it is not asked.
  std::function<std::unique_ptr<GradientSync>(const SyncPlan&, Runtime&, Mesh&)> make_sync;
  /// Makes the compute actions of a pipeline; empty: the schedule named `schedule`.
  std::function<PipelineSchedule(const PipelineShape&)> make_schedule;
  int zero_stage = 0;
  std::string schedule = std::string(default_schedule().name);
  int num_chunks = 1;

  /// A small one by default: two layers of an MLP with 6 inputs, 14 hidden and 5 outputs. 2 ranks
  /// may share a layer (tp); else few numbers of ranks divide its sizes. Its dtype is the check's
  /// precision.
  ModelOptions model = default_model();
  std::string optimizer{plain_optimizer()};  // Adam hides constant factors of gradients.
  OptimizerOptions optimizer_options{.learning_rate = 0.01, .weight_decay = 0.1};
  /// Microbatches of a step over all data-parallel ranks, which must divide them, so that every
  /// layout has the same batch.
  std::int64_t global_microbatches = 12;
  std::int64_t micro_batch_size = 2;
  double max_grad_norm = 0.0;
  /// Share of targets that do not count: ranks have different numbers of counted ones.
  double ignore_fraction = 0.3;
  std::int64_t bucket_bytes = 400;
  std::int64_t first_bucket_bytes = 200;
  /// Its pointers, seed and dtypes are filled in.
  SyncPlan sync;

  [[nodiscard]] static ModelOptions default_model();
};

/// A program that trains by `strategy` and shows gradients, parameters, optimizer state and loss of
/// every step. It throws UsageError at numbers of ranks without a layout.
[[nodiscard]] Program training_program(const TrainingStrategy& strategy);

}  // namespace shardsim
