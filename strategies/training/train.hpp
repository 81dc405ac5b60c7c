#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "strategies/pipeline/stage_runner.hpp"
#include "strategies/training/loss_scale.hpp"

// The training loop of one rank: the same code for one device, for any data-parallel strategy, and
// with or without data.
namespace shardsim {

/// The one question that the loop asks Runtime::decide: with loss scaling once in every step, with
/// the same answer on all ranks; without it never.
inline constexpr const char* kSkipStep = "skip step";

/// Data of one optimizer step: samples [step * global batch, (step + 1) * global batch), of which
/// microbatch m of data rank d gets the (m * data ranks + d)-th run of `micro_batch_size`.
/// Context-parallel ranks are one data rank: each gets its part of the positions.
struct TrainingPlan {
  std::int64_t steps = 1;
  std::int64_t micro_batch_size = 1;
  std::int64_t num_microbatches = 1;
  std::uint64_t seed = 1;
  double ignore_fraction = 0.0;  ///< Share of targets; ranks then have different numbers of them.
  double max_grad_norm = 0.0;    ///< Clip by the global norm; 0: do not.
  NormType grad_norm_type = NormType::two;
  LossScaling loss_scaling;
  /// Replicas (dp_replicate) train apart: the gradients of each are the mean over its own samples.
  /// The loss that is told is that of all samples all the same.
  bool replicas_apart = false;
  /// Samples of a step where ranks have different numbers of microbatches: rank d of D has runs d,
  /// d + D, ... of them, num_microbatches of its own. 0: all ranks have equally many.
  std::int64_t global_batch = 0;
};

/// Throws UsageError for numbers that are no batch, no share and no norm: at least 1 sample and
/// microbatch, 0 <= ignore_fraction < 1, a finite norm of 0 or more, a rule of loss scaling.
void validate(const TrainingPlan& plan);

/// State that the loop itself carries from step to step: the same on every rank, kept by
/// checkpoints.
struct TrainingProgress {
  std::int64_t updates = 0;  ///< Steps that changed the weights: those that were not skipped.
  LossScaleState loss_scale;
};

/// Sees what happens on a rank between the phases of a step; must not communicate or compute.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  /// The rank has its first weights and optimizer state; not called for ranks that join later.
  virtual void training_begins(const GradientSync&) {}
  virtual void step_begins(std::int64_t) {}
  /// The rank has the input of its first microbatch, and the last backward of a step has ended:
  /// between them the pipeline runs, before the first it fills, after the second it drains.
  virtual void compute_begins(std::int64_t) {}
  virtual void compute_ends(std::int64_t) {}
  /// The rank's next action of the pipeline's schedule, sends and receives among them.
  virtual void action_begins(std::int64_t, const Action&) {}
  /// Gradients are reduced, still multiplied by the loss scale; the optimizer has not run.
  virtual void gradients_ready(std::int64_t, const GradientSync&) {}
  /// Whether the step is skipped, as gradients overflowed, and the loss scale of the next step.
  /// Then follows the update, or nothing.
  virtual void step_decided(std::int64_t, bool /*skipped*/, double /*next_scale*/) {}
  /// The global norm for clipping, of gradients still multiplied by the loss scale; only if there
  /// is a limit.
  virtual void norm_ready(std::int64_t, double /*norm*/) {}
  /// `loss`: mean over the valid targets of the global batch, 0 without data; the last pipeline
  /// stage knows it.
  virtual void step_ends(std::int64_t, const GradientSync&, std::optional<double> /*loss*/) {}
};

/// The loop's body, one step at a time, or one phase of it at a time. Order at the end of a step:
/// data-parallel reductions, sums over tensor-parallel ranks and tied stages, the search for
/// overflows, global norm, clip, optimizer, gathers. With an overflow on any rank nothing follows
/// it on any rank: weights, optimizer state and the count of updates stay, the batch is used up.
class TrainingSession {
 public:
  /// All, and what `parallel` points at, must outlive the session; steps of
  /// `plan` means nothing to it. Throws UsageError as validate(plan).
  TrainingSession(Runtime& runtime, Mesh& mesh, const StagePlan& stage, GradientSync& sync,
                  const ModelParallel& parallel, const TrainingPlan& plan,
                  TrainingObserver& observer);
  ~TrainingSession();

  /// The three phases of step `step`, counted from 0, in order. Every rank of the mesh must call
  /// each. Between the first two, gradients are what `sync` has made of them during backward. The
  /// caller tells the observer that a step begins: more than these may belong to it.
  void compute_gradients(std::int64_t step);
  void reduce_gradients();
  void update();

  /// Mean loss over the valid targets of the global batch of the step that was updated last, 0
  /// without data. On every rank, which all must call: the last pipeline stage tells the others.
  [[nodiscard]] double loss_everywhere();

  /// Waits for what is still under way; after the last step.
  void drain();

  [[nodiscard]] const TrainingProgress& progress() const;
  /// After a checkpoint was loaded.
  void set_progress(const TrainingProgress& progress);

 private:
  class Trainer;
  std::unique_ptr<Trainer> trainer_;
};

/// Runs all steps. Every rank of the mesh must call it.
void train(Runtime& runtime, Mesh& mesh, const StagePlan& stage, GradientSync& sync,
           const ModelParallel& parallel, const TrainingPlan& plan, TrainingObserver& observer);

/// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does.
[[nodiscard]] double clip_coefficient(double norm, double max_norm);

}  // namespace shardsim
