#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/verify/reference_algorithm.hpp"
#include "sim/verify/rounding_noise.hpp"

namespace shardsim {

/// The state of one rank on the whole batch in each step, and how far rounding may move others from
/// it (docs/decisions/0051-bounds.md derives it). One reference has the run's precision, a second
/// one fp64. Steps are computed on request, in order.
///
/// The references follow the ranks: each half of a step, gradients and update, starts from the
/// ranks' state before it. Otherwise noise grows from step to step, in fp64, too, and Adam blows up
/// that of a gradient near zero to a whole update. Correct runs would then differ from one rank as
/// much as wrong ones. Nothing is taken on trust: adopted values have been compared. Other
/// algorithms are not followed: their lines are known as a whole.
class Expectations {
 public:
  /// `exact_model`: the same model computing in fp64; null if all is fp64. `on_progress`: called
  /// now and then while a step is computed; may be empty. The rest must outlive it.
  Expectations(const SyncPlan& sync, const TrainingPlan& plan, const GlobalBatch& global_batch,
               std::unique_ptr<Model> exact_model, const std::function<void()>& on_progress);

  /// The expectations of one line of another algorithm; fp64 alone. The rest must outlive it.
  Expectations(const SyncPlan& sync, std::shared_ptr<ReferenceAlgorithm> algorithm, int line);

  /// Sums over some samples can be larger than the sum over all, and rounding differs. If that
  /// decides whether a gradient overflows, either is right.
  enum class Overflow { no, yes, either };

  /// Computes this step's gradients; decides all steps before by itself.
  void begin(std::int64_t step);
  /// Whether the step has begun and its update is not decided yet.
  [[nodiscard]] bool is_open(std::int64_t step) const {
    return step + 1 == num_steps() && !last_is_decided_;
  }
  /// The reference of the comparison, for messages.
  [[nodiscard]] const char* reference_words() const {
    return algorithm_ == nullptr ? "one rank on the whole batch"
                                 : "one rank with the same algorithm";
  }
  [[nodiscard]] bool scales_loss() const { return scales_loss_; }
  /// Whether the references follow the state of the ranks.
  [[nodiscard]] bool follows() const { return reference_.has_value(); }
  /// Whether the open step's gradients depend on close calls that ranks may have decided otherwise.
  /// Then they are judged only when all are known, after decide_as.
  [[nodiscard]] bool has_open_calls() const { return has_open_calls_; }
  /// Adopts the decisions that all ranks' gradients show. REQUIRES: has_open_calls().
  void decide_as(const ReferenceTensors& gradients);
  /// Close calls that were decided as the ranks did and not as the reference.
  [[nodiscard]] std::size_t num_adopted() const { return num_adopted_; }
  /// Takes all gradients of the open step that the ranks have shown. REQUIRES: follows().
  void adopt_gradients(const ReferenceTensors& gradients);
  /// Updates, or skips, the open step, and then has its state.
  void decide(bool skip);
  /// Takes all state that the ranks have shown after the last decided step. REQUIRES: follows().
  void adopt_state(ReferenceKinds kinds);

  [[nodiscard]] std::int64_t num_steps() const { return static_cast<std::int64_t>(steps_.size()); }
  [[nodiscard]] const ReferenceStep& step(std::int64_t step) const {
    return steps_.at(index(step));
  }
  [[nodiscard]] Overflow overflow(std::int64_t step) const { return overflows_.at(index(step)); }
  /// Whether there is a tensor of this kind: there is no gradient if none is applied.
  [[nodiscard]] bool has(std::int64_t step, std::string_view kind) const {
    return steps_.at(index(step)).kinds.find(kind) != steps_.at(index(step)).kinds.end();
  }
  /// The expected values, without overflow for a gradient that may overflow. REQUIRES: the step has
  /// the kind, which a gradient that overflows has not.
  [[nodiscard]] const std::vector<double>& values(std::int64_t step, std::string_view kind,
                                                  int parameter) const;
  /// The scale of relative errors of these values: their largest, or the floor of their kind.
  [[nodiscard]] double scale(std::int64_t step, std::string_view kind, int parameter) const;
  /// The largest relative error that rounding explains: 1e-9 for values computed and kept in fp64,
  /// half of it for their gradients, so that their squares keep to it, too. Else, for a gradient:
  /// the loss from adding its contributions, by their sizes and number. If ranks share a sample,
  /// the drawn effect of other roundings of activations is added. All other kinds get 4 times the
  /// noise of one update: the distance of the two references, the median of its kind, or one unit
  /// roundoff of the dtype it is kept in.
  [[nodiscard]] double bound(std::int64_t step, std::string_view kind, int parameter) const;
  /// The error of a whole gradient of the open step, as root mean square of its elements, and the
  /// most that rounding explains. If many elements are a little wrong, none exceeds bound().
  struct MeanSquare {
    double error;
    double bound;
  };
  /// Nothing at fp64, where bound() is far below any error, or if gradients overflow.
  [[nodiscard]] std::optional<MeanSquare> mean_square_of(int parameter,
                                                         const ReferenceTensors& shown) const;
  /// A factor of two changes a value by at least 0.5 of it: a bound must be below that to show it.
  [[nodiscard]] static bool can_judge(double bound) { return bound <= 0.45; }

  /// The widest bound that can still show a factor of two.
  [[nodiscard]] double widest_bound() const;
  [[nodiscard]] std::int64_t num_skipped() const;
  [[nodiscard]] std::int64_t num_either() const;
  /// The reason why the comparison proves nothing: all steps were skipped, or noise hides a factor
  /// of two in more than half of the tensors of a kind.
  [[nodiscard]] std::optional<std::string> find_unverifiable() const;

 private:
  using Key = std::pair<std::int64_t, std::string>;  // Step and kind.

  [[nodiscard]] static std::size_t index(std::int64_t step) {
    return static_cast<std::size_t>(step);
  }
  [[nodiscard]] Overflow overflow_of(const ReferenceStep& rounded,
                                     const ReferenceStep* exact) const;
  [[nodiscard]] ReferenceStep compute_gradients();
  void finish_step(bool skip, ReferenceStep& step);
  void expect(std::int64_t step, const std::string& kind, const ReferenceTensors& tensors);
  void measure_noise(std::int64_t step, const std::string& kind, const ReferenceTensors& exact);
  void bound_gradients(std::int64_t step);
  void bound_loss(std::int64_t step);
  void draw_errors();
  [[nodiscard]] bool agrees(const ReferenceTensors& gradients) const;
  [[nodiscard]] std::size_t num_parameters() const { return sync_.model->parameters().size(); }
  [[nodiscard]] double least_noise() const;
  // Whether ranks share samples, so that they round activations differently.
  [[nodiscard]] bool is_shared() const {
    return batch_.more_roundings.any() && sync_.weight_dtype != DType::fp64;
  }

  const SyncPlan& sync_;
  GlobalBatch batch_;
  bool scales_loss_;
  std::optional<ReferenceTraining> reference_;  // None if there is an algorithm.
  std::shared_ptr<ReferenceAlgorithm> algorithm_;
  int line_ = 0;
  std::unique_ptr<Model> exact_model_;  // May be null.
  std::optional<ReferenceTraining> exact_;
  std::vector<ReferenceStep> steps_;
  std::vector<Overflow> overflows_;  // One per step.
  ReferenceStep exact_step_;         // The last one.
  ReferenceKinds adopted_;           // The state at the begin of the step.
  bool last_is_decided_ = true;
  bool has_open_calls_ = false;
  std::size_t num_adopted_ = 0;
  double gradient_noise_ = 0.0;  // The widest bound so far of a gradient that can be judged.
  ActivationNoise drawn_;        // For the gradients of the step begun last.
  std::map<Key, double, std::less<>> largest_;
  std::map<Key, std::vector<double>, std::less<>> bounds_;  // Per parameter; empty at fp64.
};

}  // namespace shardsim
