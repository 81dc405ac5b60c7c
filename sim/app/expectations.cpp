#include "sim/app/expectations.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/largest_finite.hpp"

#include "sim/app/rounding_noise.hpp"

namespace shardsim {

namespace {

constexpr double kFp64Bound = 1e-9;
constexpr double kNoiseFactor = 4.0;
constexpr int kNumSamples = 4;
static_assert(kNumSamples <= ReferenceTraining::kMaxSamples);

// What a sum is that overflowed only because of the order in which it was taken.
void fill_overflowed(ReferenceTensors& rounded, const ReferenceTensors& exact) {
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    for (std::size_t j = 0; j < rounded[i].size(); ++j) {
      if (!std::isfinite(rounded[i][j])) rounded[i][j] = exact[i][j];
    }
  }
}

}  // namespace

Expectations::Expectations(const SyncPlan& sync, const TrainingPlan& plan,
                           const GlobalBatch& global_batch, std::unique_ptr<Model> exact_model,
                           const std::function<void()>& on_progress)
    : sync_(sync),
      scales_loss_(plan.loss_scaling.acts()),
      reference_(std::in_place, sync, plan, global_batch, Batches::whole, on_progress),
      exact_model_(std::move(exact_model)),
      gradient_noise_(kNoiseFactor * unit_roundoff_of(sync, "gradient")) {
  if (exact_model_ == nullptr) return;
  SyncPlan exact = sync;
  exact.model = exact_model_.get();
  exact.weight_dtype = exact.master_dtype = exact.gradient_dtype = DType::fp64;
  exact_.emplace(exact, plan, global_batch, scales_loss_ ? Batches::one_by_one : Batches::whole,
                 on_progress);
  adopted_ = reference_->state();
  exact_->adopt_state(adopted_);
}

Expectations::Expectations(const SyncPlan& sync, std::shared_ptr<ReferenceAlgorithm> algorithm,
                           int line)
    : sync_(sync), scales_loss_(false), algorithm_(std::move(algorithm)), line_(line) {}

// Of an algorithm, a step is known as a whole: first its gradients are told, then the rest.
ReferenceStep Expectations::compute_gradients() {
  if (reference_) return reference_->compute_gradients();
  const ReferenceStep& whole = algorithm_->step(line_, num_steps());
  ReferenceStep step;
  step.loss = whole.loss;
  const auto gradient = whole.kinds.find("gradient");
  if (gradient != whole.kinds.end()) step.kinds.insert(*gradient);
  return step;
}

void Expectations::finish_step(bool skip, ReferenceStep& step) {
  if (reference_) return reference_->finish_step(skip, step);
  step.kinds = algorithm_->step(line_, num_steps() - 1).kinds;
}

void Expectations::begin(std::int64_t step) {
  while (num_steps() <= step) {
    if (!last_is_decided_) decide(scales_loss_ && steps_.back().overflowed);
    const std::int64_t number = num_steps();
    steps_.push_back(compute_gradients());
    if (exact_) exact_step_ = exact_->compute_gradients();
    last_is_decided_ = false;
    overflows_.push_back(overflow_of(steps_.back(), exact_ ? &exact_step_ : nullptr));
    if (overflows_.back() == Overflow::either) {
      fill_overflowed(steps_.back().kinds["gradient"], exact_step_.kinds["gradient"]);
    }
    // Gradients that are applied late are not there in the first steps.
    if (overflows_.back() != Overflow::yes && steps_.back().kinds.count("gradient") > 0) {
      expect(number, "gradient", steps_.back().kinds["gradient"]);
    }
    if (!exact_) continue;
    const double loss = std::fabs(exact_step_.loss);
    const double noise = relative(std::fabs(steps_.back().loss - exact_step_.loss), loss);
    bounds_[{number, "loss"}].push_back(kNoiseFactor *
                                        std::max(noise, unit_roundoff_of(sync_, "loss")));
  }
}

void Expectations::adopt_gradients(const ReferenceTensors& gradients) {
  reference_->adopt_gradients(gradients);
  exact_->adopt_gradients(gradients);
}

void Expectations::adopt_state(ReferenceKinds kinds) {
  reference_->adopt_state(kinds);
  exact_->adopt_state(kinds);
  adopted_ = std::move(kinds);
}

void Expectations::decide(bool skip) {
  finish_step(skip, steps_.back());
  if (exact_) {
    // Gradients are of the weights, updates of the masters; the exact reference has one for both.
    const auto masters = adopted_.find("master");
    if (masters != adopted_.end()) exact_->adopt_weights(masters->second);
    exact_->finish_step(skip, exact_step_);
  }
  for (const auto& [kind, tensors] : steps_.back().kinds) {
    if (kind != "gradient") expect(num_steps() - 1, kind, tensors);
  }
  last_is_decided_ = true;
}

Expectations::Overflow Expectations::overflow_of(const ReferenceStep& rounded,
                                                 const ReferenceStep* exact) const {
  if (!scales_loss_) return Overflow::no;
  const Overflow own = rounded.overflowed ? Overflow::yes : Overflow::no;
  if (exact == nullptr) return own;
  const double limit = largest_finite(sync_.gradient_dtype);
  if (exact->largest > limit * (1.0 + gradient_noise_)) return Overflow::yes;
  // No sum can get there: if something overflowed, then on the way to the gradients.
  if (exact->largest_part < limit * (1.0 - gradient_noise_)) return own;
  return Overflow::either;
}

void Expectations::expect(std::int64_t step, const std::string& kind,
                          const ReferenceTensors& tensors) {
  largest_[{step, kind}] = largest(tensors);
  if (exact_) {
    measure_noise(step, kind, exact_step_.kinds.at(kind == "master" ? "parameter" : kind));
  }
}

void Expectations::measure_noise(std::int64_t step, const std::string& kind,
                                 const ReferenceTensors& exact) {
  std::vector<double> noise = noise_of(steps_.at(index(step)).kinds.at(kind), exact);
  for (int sample = 0; kind == "gradient" && sample < kNumSamples; ++sample) {
    const ReferenceTensors near =
        exact_->gradients_near(unit_roundoff_of(sync_, "parameter"), sample);
    const std::vector<double> more = noise_of(near, exact);
    for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = std::max(noise[i], more[i]);
  }
  const double typical = std::max(median(noise), unit_roundoff_of(sync_, kind));
  std::vector<double>& bounds = bounds_[{step, kind}];
  for (std::size_t i = 0; i < noise.size(); ++i) {
    bounds.push_back(kNoiseFactor * std::max(noise[i], typical));
    if (kind == "gradient" && can_judge(bounds.back())) {
      gradient_noise_ = std::max(gradient_noise_, bounds.back());
    }
  }
}

const std::vector<double>& Expectations::values(std::int64_t step, std::string_view kind,
                                                int parameter) const {
  return steps_.at(index(step)).kinds.find(kind)->second.at(static_cast<std::size_t>(parameter));
}

double Expectations::scale(std::int64_t step, std::string_view kind, int parameter) const {
  const double floor = kNoiseFloor * largest_.find(Key(step, kind))->second;
  return std::max(largest(values(step, kind, parameter)), floor);
}

double Expectations::bound(std::int64_t step, std::string_view kind, int parameter) const {
  const auto found = bounds_.find(Key(step, kind));
  return found == bounds_.end() ? kFp64Bound : found->second[static_cast<std::size_t>(parameter)];
}

double Expectations::widest_bound() const {
  double widest = kFp64Bound;
  for (const auto& [_, bounds] : bounds_) {
    for (const double bound : bounds) {
      if (can_judge(bound)) widest = std::max(widest, bound);
    }
  }
  return widest;
}

std::int64_t Expectations::num_skipped() const {
  return std::count_if(steps_.begin(), steps_.end(),
                       [](const ReferenceStep& step) { return step.skipped; });
}

std::int64_t Expectations::num_either() const {
  return std::count(overflows_.begin(), overflows_.end(), Overflow::either);
}

std::optional<std::string> Expectations::find_unverifiable() const {
  if (num_skipped() == num_steps()) {
    return fmt::format(
        "all {} steps were skipped, as gradients overflowed: nothing is proven; use more steps, or "
        "a smaller training.loss_scale",
        num_steps());
  }
  for (const auto& [key, bounds] : bounds_) {
    const auto blind =
        std::count_if(bounds.begin(), bounds.end(), [](double bound) { return !can_judge(bound); });
    if (2 * blind <= static_cast<std::ptrdiff_t>(bounds.size())) continue;
    return fmt::format(
        "step {}: the rounding noise of this precision hides a factor of two in {} "
        "of {} tensors of kind {}: nothing is proven; verify at fp64, or with fewer "
        "steps or a smaller learning rate",
        key.first, blind, bounds.size(), key.second);
  }
  return std::nullopt;
}

}  // namespace shardsim
