#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/stochastic_rounding.hpp"

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/model/delayed_scales.hpp"
#include "strategies/training/train.hpp"

#include "sim/verify/open_calls.hpp"
#include "sim/verify/whole_parameters.hpp"

// One rank that trains on the whole batch: every strategy must equal it (law L2). The code is as
// plain as possible, and apart from the strategies: whole tensors, one batch, no communication.
namespace shardsim {

struct SharedSum;

/// The samples of a step, and the division of their tokens over ranks: each has one of
/// `context_parts` shares of every sample, and one of `token_shards` of that share. Only experts
/// depend on it.
struct GlobalBatch {
  // A number of samples is one. NOLINTNEXTLINE(google-explicit-constructor)
  GlobalBatch(std::int64_t num_samples) : samples(num_samples) {}

  std::int64_t samples;
  int context_parts = 1;
  int token_shards = 1;
  int expert_ranks = 1;  ///< These, too, are as in RoutingGroups.
  int expert_slices = 1;
  int expert_nodes = 0;
  /// Consecutive samples whose gradients are known only together: those of an auxiliary loss, or
  /// that share the capacity of experts, or the scales of their rows.
  std::int64_t coupled_samples = 1;
  /// Consecutive samples of one microbatch of a rank. Their gradients are one contribution, unless
  /// ranks share the tokens.
  std::int64_t samples_at_once = 1;
  /// Quantized tensors are those of samples_at_once: their scales are.
  bool has_own_scales = false;
  /// Roundings of sums that ranks share beyond those of one device, halved: the reference has as
  /// many. None: ranks compute whole samples with the same roundings as one device, so activations
  /// are the same bits.
  SumRoundings more_roundings;
};

/// The division of a step's samples into batches.
enum class Batches {
  whole,     ///< Into one batch, or into those that a rank takes at once if they have own scales.
  in_parts,  ///< Those that a rank takes at once, or that are coupled, together: then it is known
             ///< how large sums over some of them can get.
};

/// Trains with the weights, data and optimizer of `sync`, at its dtypes, a step at a time.
class ReferenceTraining {
 public:
  /// `global_batch`: that of a step. `on_progress`: called at every operation; may be empty. The
  /// model of `sync` must outlive it.
  ReferenceTraining(const SyncPlan& sync, const TrainingPlan& plan, const GlobalBatch& global_batch,
                    Batches batches, std::function<void()> on_progress = {});
  ReferenceTraining(const ReferenceTraining&) = delete;
  ReferenceTraining& operator=(const ReferenceTraining&) = delete;

  /// Loss and gradients of the next step.
  [[nodiscard]] ReferenceStep compute_gradients();
  /// Loss and gradients of the last computation with other, drawn rounding errors of activations
  /// (backends/stochastic_rounding.hpp); `draw` selects them, none: rounded to nearest, as before.
  /// Gradients are summed up in fp64. Changes nothing. REQUIRES: Batches::in_parts.
  [[nodiscard]] ReferenceStep draw_gradients(std::optional<std::int64_t> draw);
  /// Whether a drawn rounding error may decide a side of ReLU, or a token's experts, otherwise.
  [[nodiscard]] bool has_open_calls() const;
  /// Adopts those decisions that best explain the gradients `shown` by the ranks, and computes the
  /// step again with them; nothing if none changes. `units`: the unit of each tensor's errors.
  [[nodiscard]] std::optional<ReferenceStep> decide_as(const ReferenceTensors& shown,
                                                       const std::vector<double>& units);
  /// Updates, or skips the step, and adds the new state to `step`. A gradient that overflowed and
  /// is used nevertheless counts as the largest value of its dtype.
  void finish_step(bool skip, ReferenceStep& step);

  [[nodiscard]] const Model& model() const { return *sync_.model; }
  /// Weights, masters and optimizer state as they are now.
  [[nodiscard]] ReferenceKinds state() const;
  /// Continues with these values instead of its own. `weights` are rounded to the dtype of weights.
  void adopt_gradients(const ReferenceTensors& gradients) { parameters_.set_gradients(gradients); }
  void adopt_weights(const ReferenceTensors& weights) { parameters_.set_weights(weights); }
  /// Kinds as in ReferenceStep; those that it does not have are left out.
  void adopt_state(const ReferenceKinds& kinds) { parameters_.set_state(kinds); }

 private:
  struct Samples {
    std::int64_t first;
    std::int64_t count;
  };

  ReferenceStep compute();
  template <class Whole>
  double run(const Samples& samples, Whole& parameters, std::optional<std::uint64_t> errors = {},
             const SeenWork& seen = {});
  [[nodiscard]] std::int64_t part_size() const;
  template <class Visit>
  void for_each_part(const Visit& visit) const;
  std::vector<OpenCalls::Place> explain_by_calls(const std::vector<double>& rest,
                                                 const std::vector<double>& units);
  std::vector<std::vector<double>> changes_by(const std::vector<OpenCalls::Place>& calls,
                                              const std::vector<double>& units);
  ReferenceTensors gradients_of_part(std::size_t part, int last);
  [[nodiscard]] SharedSum shared_sum() const;
  void run_whole(ReferenceStep& step);
  void run_in_parts(ReferenceStep& step);
  void update();
  void update_biases();
  void finish_scales(AmaxEnd end);

  SyncPlan sync_;
  TrainingPlan plan_;
  GlobalBatch groups_;
  std::int64_t global_batch_;
  Batches batches_;
  TellingRuntime runtime_;
  WholeParameters parameters_;
  ExactSums exact_sums_;
  RouterBiases biases_;
  std::vector<double> loads_;  // The experts' loads in the step computed last.
  std::optional<DelayedScales> scales_;
  LossScaleState scale_;
  OpenCalls calls_;
  // The step computed last: its first sample and its targets.
  std::int64_t first_ = 0;
  TargetCounts targets_;
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;
};

/// The key of a piece's kind in ReferenceStep::kinds.
[[nodiscard]] std::string_view kind_name(const StatePiece& piece);

}  // namespace shardsim
