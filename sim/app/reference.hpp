#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/training/train.hpp"

// One rank that trains on the whole batch: what every strategy must equal (law L2). Written as
// plainly as can be, and apart from the strategies: whole tensors, one batch, no communication.
namespace shardsim {

/// All values of one kind ("gradient", "parameter", "exp_avg", ...), by parameter.
using ReferenceTensors = std::vector<std::vector<double>>;

struct ReferenceStep {
  double loss = 0.0;        ///< Mean over the valid targets.
  bool skipped = false;     ///< A gradient overflowed.
  double next_scale = 1.0;  ///< Loss scale of the next step.
  /// "gradient" is from before the optimizer, clipping and unscaling, and not there in a skipped
  /// step; the rest is from after it.
  std::map<std::string, ReferenceTensors, std::less<>> kinds;
};

/// Trains `plan.steps` steps with the weights, data and optimizer of `sync`, at its dtypes.
/// `global_batch`: samples per step. `decided`: skips the same steps as these; null: those in which
/// its own gradients overflow.
[[nodiscard]] std::vector<ReferenceStep> train_reference(
    const SyncPlan& sync, const TrainingPlan& plan, std::int64_t global_batch,
    const std::vector<ReferenceStep>* decided = nullptr);

/// The key of a piece's kind in ReferenceStep::kinds.
[[nodiscard]] std::string_view kind_name(const StatePiece& piece);

}  // namespace shardsim
