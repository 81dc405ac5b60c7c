#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "strategies/training/parallel_plan.hpp"

#include "sim/verify/whole_parameters.hpp"

// The reference for strategies that change the algorithm on purpose (law L2). It is a sequential
// program of that same algorithm, on one device, written as plainly as possible and apart from the
// strategies. It has a line for each set of ranks that hold one model: one, unless replicas train
// apart. It exists in fp64 alone, without loss scaling.
namespace shardsim {

class ReferenceAlgorithm {
 public:
  virtual ~ReferenceAlgorithm() = default;
  [[nodiscard]] virtual int num_lines() const { return 1; }
  /// The state of a line in step `number`: all steps up to it are computed first, for all lines.
  [[nodiscard]] const ReferenceStep& step(int line, std::int64_t number);

 protected:
  /// The next step of every line, complete.
  [[nodiscard]] virtual std::vector<ReferenceStep> train() = 0;

 private:
  std::vector<std::vector<ReferenceStep>> steps_;
};

/// One sum for each of a model's losses.
using LossSums = std::vector<double>;

/// The common parts of the references of all algorithms: the samples of data-parallel ranks, and
/// one device to compute on.
class SampleParts {
 public:
  SampleParts(const ParallelPlan& plan, std::function<void()> on_progress);

  /// Gradients and loss of data ranks [first, first + count) in `step`, with the weights of
  /// `parameters`, which also receive the gradients, each a mean over `targets`. Adds the losses,
  /// sums over targets, to `sums`.
  void run(std::int64_t step, int first, int count, const TargetCounts& targets,
           WholeParameters& parameters, LossSums& sums);
  /// Valid targets of these ranks in that step.
  [[nodiscard]] TargetCounts targets(std::int64_t step, int first, int count) const;
  [[nodiscard]] int num_ranks() const { return plan_.options().mesh.data_size(); }
  [[nodiscard]] Runtime& runtime() { return runtime_; }
  [[nodiscard]] const SyncPlan& sync() const { return plan_.options().sync; }
  [[nodiscard]] const TrainingPlan& training() const { return plan_.options().training; }
  /// One update of the optimizer, with clipping, from the gradients in `parameters`.
  void update(WholeParameters& parameters, std::int64_t number) const;

 private:
  [[nodiscard]] std::int64_t first_sample(std::int64_t step, std::int64_t microbatch,
                                          int rank) const;

  const ParallelPlan& plan_;
  TellingRuntime runtime_;
};

/// Null if the plan is compared with one device that trains on the whole batch. `plan` must outlive
/// it. `on_progress`: called at every operation; may be empty.
[[nodiscard]] std::shared_ptr<ReferenceAlgorithm> make_reference_algorithm(
    const ParallelPlan& plan, const std::function<void()>& on_progress);

/// The line of a rank's model.
[[nodiscard]] int line_of(const ParallelPlan& plan, const MeshPlace& place);

}  // namespace shardsim
