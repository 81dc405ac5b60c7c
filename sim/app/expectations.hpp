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

#include "sim/app/reference_algorithm.hpp"
#include "sim/app/rounding_noise.hpp"

namespace shardsim {

/// The state of one rank on the whole batch in each step, and how far rounding may move others from
/// it (docs/decisions/0051-bounds.md derives it). One reference has the run's precision, a second
/// one fp64. Steps are computed on request, in order.
///
/// The references follow the ranks: each half of a step, gradients and update, starts from what the
/// ranks had before it. Else noise grows from step to step, in fp64, too, and Adam blows up that of
/// a gradient near zero to a whole update: correct runs would differ from one rank as wrong ones
/// do. Nothing is taken on trust: what is adopted has been compared. Other algorithms are not
/// followed: their lines are known as a whole.
class Expectations {
 public:
  /// `exact_model`: the same model computing in fp64; null where all is fp64. `on_progress`: called
  /// now and then while a step is computed; may be empty. The rest must outlive it.
  Expectations(const SyncPlan& sync, const TrainingPlan& plan, const GlobalBatch& global_batch,
               std::unique_ptr<Model> exact_model, const std::function<void()>& on_progress);

  /// Held against one line of another algorithm than that; fp64 alone. The rest must outlive it.
  Expectations(const SyncPlan& sync, std::shared_ptr<ReferenceAlgorithm> algorithm, int line);

  /// Sums over some samples can be larger than the sum over all, and rounding differs: where that
  /// decides whether a gradient overflows, it may or may not.
  enum class Overflow { no, yes, either };

  /// Has this step's gradients afterwards; decides all steps before by itself.
  void begin(std::int64_t step);
  /// Of a step that was begun, whose update is not decided yet.
  [[nodiscard]] bool is_open(std::int64_t step) const {
    return step + 1 == num_steps() && !last_is_decided_;
  }
  /// What the ranks are held against, for messages.
  [[nodiscard]] const char* reference_words() const {
    return algorithm_ == nullptr ? "one rank on the whole batch"
                                 : "one rank with the same algorithm";
  }
  [[nodiscard]] bool scales_loss() const { return scales_loss_; }
  /// Whether the references go on with what the ranks have.
  [[nodiscard]] bool follows() const { return reference_.has_value(); }
  /// Whether the open step's gradients depend on close calls that ranks may have decided otherwise.
  /// Then judge them only when all are known, after decide_as.
  [[nodiscard]] bool has_open_calls() const { return has_open_calls_; }
  /// Adopts the decisions that all ranks' gradients show. REQUIRES: has_open_calls().
  void decide_as(const ReferenceTensors& gradients);
  /// All that the ranks have shown of the gradients of the step that is open. REQUIRES: follows().
  void adopt_gradients(const ReferenceTensors& gradients);
  /// Updates, or skips, the step that is open, and has its state afterwards.
  void decide(bool skip);
  /// All that they have shown of the state after the step decided last. REQUIRES: follows().
  void adopt_state(ReferenceKinds kinds);

  [[nodiscard]] std::int64_t num_steps() const { return static_cast<std::int64_t>(steps_.size()); }
  [[nodiscard]] const ReferenceStep& step(std::int64_t step) const {
    return steps_.at(index(step));
  }
  [[nodiscard]] Overflow overflow(std::int64_t step) const { return overflows_.at(index(step)); }
  /// Whether there is anything of this kind: no gradient where none is applied.
  [[nodiscard]] bool has(std::int64_t step, std::string_view kind) const {
    return steps_.at(index(step)).kinds.find(kind) != steps_.at(index(step)).kinds.end();
  }
  /// Of a gradient that may or may not overflow: as if it did not. REQUIRES: the step has the kind,
  /// which a gradient that overflows has not.
  [[nodiscard]] const std::vector<double>& values(std::int64_t step, std::string_view kind,
                                                  int parameter) const;
  /// What an error of these values is relative to: their largest, or the floor of their kind.
  [[nodiscard]] double scale(std::int64_t step, std::string_view kind, int parameter) const;
  /// The largest relative error that rounding explains: 1e-9 for values computed and kept in fp64,
  /// half of it for their gradients, so that squares of these keep to it, too.
  /// Else, for a gradient: the loss from adding its contributions, by their sizes and number. If
  /// ranks share a sample, the drawn effect of other roundings of activations is added. All other
  /// kinds get 4 times the noise of one update: the distance of the two references, the median of
  /// its kind, or one unit roundoff of the dtype it is kept in.
  [[nodiscard]] double bound(std::int64_t step, std::string_view kind, int parameter) const;
  /// How far a whole gradient of the open step is off, as root mean square of its elements, and the
  /// most that rounding explains. Where many elements are a little wrong, none exceeds bound().
  struct MeanSquare {
    double error;
    double bound;
  };
  /// Nothing at fp64, where bound() is far below any error, or where gradients overflow.
  [[nodiscard]] std::optional<MeanSquare> mean_square_of(int parameter,
                                                         const ReferenceTensors& shown) const;
  /// Half or double differs by 0.5 or more: a bound must be below to tell.
  [[nodiscard]] static bool can_judge(double bound) { return bound <= 0.45; }

  /// The widest bound that can still tell.
  [[nodiscard]] double widest_bound() const;
  [[nodiscard]] std::int64_t num_skipped() const;
  [[nodiscard]] std::int64_t num_either() const;
  /// Why comparing proves nothing: all steps were skipped, or noise hides a factor of two in more
  /// than half of the tensors of a kind.
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
  [[nodiscard]] std::size_t num_parameters() const { return sync_.model->parameters().size(); }
  [[nodiscard]] double least_noise() const;
  // Whether ranks share samples, so that they round activations differently.
  [[nodiscard]] bool is_shared() const {
    const SumRoundings& more = batch_.more_roundings;
    return (more.tensor > 0.0 || more.context > 0.0) && sync_.weight_dtype != DType::fp64;
  }

  const SyncPlan& sync_;
  GlobalBatch batch_;
  bool scales_loss_;
  std::optional<ReferenceTraining> reference_;  // None where there is an algorithm.
  std::shared_ptr<ReferenceAlgorithm> algorithm_;
  int line_ = 0;
  std::unique_ptr<Model> exact_model_;  // May be null.
  std::optional<ReferenceTraining> exact_;
  std::vector<ReferenceStep> steps_;
  std::vector<Overflow> overflows_;  // Of each of them.
  ReferenceStep exact_step_;         // The last one.
  ReferenceKinds adopted_;           // What the step began with.
  bool last_is_decided_ = true;
  bool has_open_calls_ = false;
  double gradient_noise_ = 0.0;  // The widest bound so far of a gradient that can be judged.
  ActivationNoise drawn_;        // For the gradients of the step begun last.
  std::map<Key, double, std::less<>> largest_;
  std::map<Key, std::vector<double>, std::less<>> bounds_;  // Per parameter; empty at fp64.
};

}  // namespace shardsim
