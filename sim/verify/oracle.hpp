#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "strategies/gradient_sync/whole_state.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/verify/expectations.hpp"
#include "sim/verify/shown_pieces.hpp"

namespace shardsim {

/// Compares the state of every rank, step by step, with one rank that trains on the whole batch.
///
/// Error of a tensor: max |a - b| / max(max |b|, 1e-6 x max |b| over all tensors of its kind); its
/// bound: Expectations::bound. A tensor cannot be judged if its bound would hide a factor of two.
/// The run fails as unverifiable if that is so for more than half of the tensors of a kind. Every
/// element must be shown, by equally many ranks. With loss scaling, gradients are compared as they
/// are, scaled. The same steps must be skipped for an overflow; gradients of such a step are not
/// compared, and its state must stay unchanged. If the order of sums decides whether a gradient
/// overflows, the ranks may do either, if all do the same, and the reference follows them.
///
/// The reference follows the ranks in all other state, too (Expectations): state is judged when the
/// last rank has shown it, from the gradients of all ranks.
class Oracle {
 public:
  /// `exact_model`: the same model computing in fp64, to measure the noise with; null if all is
  /// fp64. `num_ranks`: the number of ranks that will show their state. `on_progress`: called now
  /// and then while the reference computes; may be empty.
  Oracle(const SyncPlan& sync, const TrainingPlan& plan, const GlobalBatch& global_batch,
         std::unique_ptr<Model> exact_model, int num_ranks,
         const std::function<void()>& on_progress = {});

  /// Compares with a line of another algorithm than one rank on the whole batch, in fp64: that of
  /// `num_ranks` ranks.
  Oracle(const SyncPlan& sync, std::shared_ptr<ReferenceAlgorithm> algorithm, int line,
         int num_ranks);

  /// A rank and its part of the model. `shard`: the index of its shard. Ranks with the same stage,
  /// shard and tensor-parallel place must hold the same values, bit by bit. For parameters that
  /// tensor parallelism leaves whole, all tensor-parallel ranks must; of parts, those with copies.
  /// For experts that are cut over ranks, those with the same stage, expert shard and
  /// expert-parallel place must.
  struct Holder {
    int rank = 0;
    int shard = 0;
    int line = 0;  ///< Verification's index of the oracle that judges it.
    bool has_last_stage = true;
    ModelPart part;
    int expert_shard = 0;  ///< The index of the shard of experts' weights.
  };
  /// A rank's gradients before the optimizer, or its state after it. `loss`: if it is known.
  void check_gradients(std::int64_t step, const Holder& holder, const GradientSync& sync);
  /// A rank's norm of all gradients, which it clips by: that of the gradients that all ranks show.
  /// Another algorithm than one rank on the whole batch has norms of its own, which are not judged.
  void check_norm(std::int64_t step, int rank, double norm);
  /// A rank's decision on a step with loss scaling.
  void check_decision(std::int64_t step, int rank, bool skipped, double next_scale);
  void check_state(std::int64_t step, const Holder& holder, const GradientSync& sync,
                   std::optional<double> loss);

  /// Largest error over all ranks and steps.
  struct Errors {
    double gradients = 0.0;
    double parameters = 0.0;
    double optimizer_state = 0.0;
    double loss = 0.0;
    std::optional<double> norm;  ///< None if no norm was judged.
  };
  [[nodiscard]] const Errors& errors() const { return errors_; }
  /// Judges replicas and coverage; must be called once, after the run.
  void finish();
  /// REQUIRES: finished.
  [[nodiscard]] bool passed() const { return !first_failure_ && !divergence_ && !unproven_; }
  /// "step 2, rank 3: gradient of blocks.0.ln1.weight [elements 5 to 9] is 8.000 times ..."; or the
  /// compared tensors, if it passed.
  [[nodiscard]] std::string detail() const;

 private:
  struct Failure {
    // The first failure is reported: by step, kind in the order of a step, rank, parameter.
    std::tuple<std::int64_t, int, int, int> order;
    std::string text;
  };
  using Overflow = Expectations::Overflow;

  // Tensors that tensor parallelism splits, that all its ranks or two stages hold, experts, and
  // parts that some of its ranks hold.
  struct Shown {
    Fingerprints tied;
    Fingerprints split;
    Fingerprints whole;
    Fingerprints experts;
    std::map<int, Fingerprints> copied;  // By the number of copies of a part.
  };
  // Updates the reference, unless that is done already.
  void decide(std::int64_t step, bool skip);
  // Judges the state that ranks have shown after `waiting_step_`, and follows it.
  void settle();
  // All elements of each gradient together.
  void check_mean_squares(std::int64_t step, const ReferenceTensors& gradients);
  // Weights must be their rounded masters, bit by bit.
  void check_rounding(std::int64_t step, const ReferenceKinds& state);
  void show(std::int64_t step, const Holder& holder, const GradientSync& sync, StateKind kind,
            Shown& shown);
  void judge(std::int64_t step, int rank, const WholePiece& whole);
  void compare(std::int64_t step, int rank, const StatePiece& piece);
  void compare_loss(std::int64_t step, int rank, double loss);
  void compare_norm(std::int64_t step, int rank, double norm);
  void note(const Failure& failure);
  void keep_replicas(std::int64_t step, const Holder& holder, int phase, const Shown& shown);
  [[nodiscard]] double& error_of(StateKind kind);
  [[nodiscard]] std::string name_of_parameter(int parameter) const;
  [[nodiscard]] int num_parameters() const;

  struct Waiting {
    int rank;
    WholePiece whole;
  };

  const SyncPlan& sync_;
  NormType norm_type_ = NormType::two;
  Expectations expected_;
  int num_ranks_;
  PiecedState gradients_;                   // The open step's, if the reference follows.
  std::vector<Waiting> waiting_gradients_;  // Until the decisions of close calls are known.
  std::vector<std::pair<int, double>> waiting_losses_;  // Rank and loss.
  std::vector<std::pair<int, double>> waiting_norms_;   // Until the gradients of all are known.
  std::pair<std::int64_t, double> norm_{-1, 0.0};       // The last step with one, and its norm.
  std::vector<Waiting> waiting_;  // State that ranks have shown after one step.
  std::int64_t waiting_step_ = -1;
  int num_waiting_ = 0;  // Ranks that have shown it.
  Coverage coverage_;
  Replicas replicas_;
  Errors errors_;
  std::int64_t num_compared_ = 0;
  std::int64_t num_unjudged_ = 0;
  std::int64_t num_losses_ = 0;
  std::int64_t num_norms_ = 0;
  std::optional<Failure> first_failure_;
  std::optional<std::string> divergence_;
  std::optional<std::string> unproven_;
};

// --- Lines -------------------------------------------------------------------------------------

/// The checks of a run with real numbers: one oracle, or one per replica if replicas train apart.
/// Such replicas need not be equal, but each must equal its reference.
class Verification {
 public:
  /// `experiment` must outlive it. `on_progress`: called now and then; may be empty.
  explicit Verification(const Experiment& experiment,
                        const std::function<void()>& on_progress = {});

  /// By line; see Oracle::Holder.
  [[nodiscard]] std::vector<Oracle*> oracles();
  /// Must be called once, after the run.
  void finish();

  // REQUIRES: finished. The results cover all lines.
  [[nodiscard]] Oracle::Errors errors() const;
  [[nodiscard]] bool passed() const;
  [[nodiscard]] std::string detail() const;

 private:
  std::deque<Oracle> lines_;
};

/// The oracles' description of the rank at `place`.
[[nodiscard]] Oracle::Holder holder_of(const ParallelPlan& plan, const MeshPlace& place);

}  // namespace shardsim
