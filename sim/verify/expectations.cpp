#include "sim/verify/expectations.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/kernel/dtype.hpp"

namespace shardsim {

namespace {

constexpr double kFp64Bound = 1e-9;
// The bound of a gradient whose update is judged apart: its square is state, with twice the error.
constexpr double kFp64GradientBound = kFp64Bound / 2.0;
constexpr double kNoiseFactor = 4.0;

// Replaces sums that overflowed only because of the order of summation.
void fill_overflowed(ReferenceTensors& rounded, const ReferenceTensors& exact) {
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    for (std::size_t j = 0; j < rounded[i].size(); ++j) {
      if (!std::isfinite(rounded[i][j])) rounded[i][j] = exact[i][j];
    }
  }
}

// Not all parameters have a state of each kind.
std::vector<double> of_present(const std::vector<double>& noise, const ReferenceTensors& tensors) {
  std::vector<double> present;
  for (std::size_t i = 0; i < noise.size(); ++i) {
    if (!tensors[i].empty()) present.push_back(noise[i]);
  }
  return present;
}

}  // namespace

Expectations::Expectations(const SyncPlan& sync, const TrainingPlan& plan,
                           const GlobalBatch& global_batch, std::unique_ptr<Model> exact_model,
                           const std::function<void()>& on_progress)
    : sync_(sync),
      batch_(global_batch),
      scales_loss_(plan.loss_scaling.acts()),
      reference_(std::in_place, sync, plan, global_batch,
                 exact_model == nullptr ? Batches::whole : Batches::in_parts, on_progress),
      exact_model_(std::move(exact_model)),
      gradient_noise_(kNoiseFactor * unit_roundoff_of(sync, "gradient")) {
  if (exact_model_ == nullptr) return;
  SyncPlan exact = sync;
  exact.model = exact_model_.get();
  exact.weight_dtype = exact.master_dtype = exact.gradient_dtype = DType::fp64;
  exact.state_dtype = DType::fp64;
  exact_.emplace(exact, plan, global_batch, scales_loss_ ? Batches::in_parts : Batches::whole,
                 on_progress);
  adopted_ = reference_->state();
  exact_->adopt_state(adopted_);
}

Expectations::Expectations(const SyncPlan& sync, std::shared_ptr<ReferenceAlgorithm> algorithm,
                           int line)
    : sync_(sync), batch_(0), scales_loss_(false), algorithm_(std::move(algorithm)), line_(line) {}

// An algorithm computes a step as a whole: its gradients are returned first, then the rest.
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
    if (exact_) draw_errors();
    has_open_calls_ = follows() && is_shared() && overflows_.back() != Overflow::yes &&
                      reference_->has_open_calls();
    // Gradients that are applied late do not exist in the first steps.
    if (overflows_.back() != Overflow::yes && steps_.back().kinds.count("gradient") > 0) {
      expect(number, "gradient", steps_.back().kinds["gradient"]);
    }
    if (exact_) bound_loss(number);
  }
}

// If ranks compute whole samples, their activations have the rounding errors of one device, to the
// bit, and only sums of gradients differ. If they share samples, other errors are as likely.
void Expectations::draw_errors() {
  if (is_shared()) {
    drawn_.draw(*reference_, num_parameters());
  } else {
    drawn_.clear(num_parameters());
  }
}

// A loss is a mean of fp32 or wider, so only activations matter.
void Expectations::bound_loss(std::int64_t step) {
  const double drawn = relative(drawn_.of_loss(), std::fabs(steps_.back().loss));
  bounds_[{step, "loss"}] = {std::max({kFp64Bound, least_noise(), drawn})};
}

bool Expectations::agrees(const ReferenceTensors& gradients) const {
  const std::int64_t step = num_steps() - 1;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const int parameter = static_cast<int>(i);
    const double error = largest_error(gradients[i], values(step, "gradient", parameter));
    if (relative(error, scale(step, "gradient", parameter)) > bound(step, "gradient", parameter)) {
      return false;
    }
    const std::optional<MeanSquare> whole = mean_square_of(parameter, gradients);
    if (whole && whole->error > whole->bound) return false;
  }
  return true;
}

// Other decisions have other sums, so the bounds are computed anew. A token in another expert
// changes the input of later routers, so there may be more to decide.
void Expectations::decide_as(const ReferenceTensors& gradients) {
  const std::int64_t step = num_steps() - 1;
  for (int round = 0; round < 2 * sync_.model->num_modules() && !agrees(gradients); ++round) {
    std::vector<double> units;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const int parameter = static_cast<int>(i);
      units.push_back(bound(step, "gradient", parameter) * scale(step, "gradient", parameter));
    }
    std::optional<ReferenceStep> decided = reference_->decide_as(gradients, units);
    if (!decided) return;
    steps_.back() = std::move(*decided);
    num_adopted_ += steps_.back().num_adopted;
    ReferenceTensors& mine = steps_.back().kinds["gradient"];
    if (overflows_.back() == Overflow::either) fill_overflowed(mine, exact_step_.kinds["gradient"]);
    draw_errors();
    expect(step, "gradient", mine);
    bound_loss(step);
  }
}

void Expectations::adopt_gradients(const ReferenceTensors& gradients) {
  reference_->adopt_gradients(gradients);
  if (exact_) exact_->adopt_gradients(gradients);
}

void Expectations::adopt_state(ReferenceKinds kinds) {
  reference_->adopt_state(kinds);
  if (!exact_) return;
  exact_->adopt_state(kinds);
  adopted_ = std::move(kinds);
}

void Expectations::decide(bool skip) {
  finish_step(skip, steps_.back());
  if (exact_) {
    // Gradients belong to weights, updates to masters; the exact reference has one tensor for both.
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
  // No sum of the gradient can overflow: an overflow happened on the way to it.
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

// Doubles summed in another order may round to a neighbour in fp32, for some of millions of values;
// in narrower types for none.
double Expectations::least_noise() const {
  return kNoiseFactor * std::min(unit_roundoff(sync_.weight_dtype), unit_roundoff(DType::fp32));
}

std::optional<Expectations::MeanSquare> Expectations::mean_square_of(
    int parameter, const ReferenceTensors& shown) const {
  const std::int64_t step = num_steps() - 1;
  if (!exact_ || overflows_.back() != Overflow::no) return std::nullopt;
  const auto index = static_cast<std::size_t>(parameter);
  const double of_sums = most_of_mean_square(steps_.back().sum_variances[index]);
  const std::vector<double>& mine = values(step, "gradient", parameter);
  const double size = root_mean_square_error(mine, std::vector<double>(mine.size(), 0.0));
  const double least =
      std::max(least_noise() * size, kFp64GradientBound * scale(step, "gradient", parameter));
  return MeanSquare{root_mean_square_error(shown[index], mine),
                    std::max(std::hypot(of_sums, drawn_.of_mean_square(index)), least)};
}

void Expectations::bound_gradients(std::int64_t step) {
  const double last_bit = unit_roundoff(sync_.gradient_dtype);
  const double floor = std::max(kNoiseFactor * last_bit, least_noise());
  const ReferenceTensors& of_sums = steps_.at(index(step)).sum_errors;
  std::vector<double>& bounds = bounds_[{step, "gradient"}];
  bounds.clear();
  for (std::size_t i = 0; i < of_sums.size(); ++i) {
    const double error = std::hypot(last_bit * largest(of_sums[i]), drawn_.of_element(i));
    bounds.push_back(
        std::max(floor, relative(error, scale(step, "gradient", static_cast<int>(i)))));
    if (can_judge(bounds.back())) gradient_noise_ = std::max(gradient_noise_, bounds.back());
  }
}

void Expectations::measure_noise(std::int64_t step, const std::string& kind,
                                 const ReferenceTensors& exact) {
  if (kind == "gradient") return bound_gradients(step);
  // Updates are computed in fp64, and follow the state of the ranks. If they are kept in fp64, too,
  // law L2 has a bound.
  const double last_bit = unit_roundoff_of(sync_, kind);
  const bool is_fp64 = last_bit == unit_roundoff(DType::fp64);
  const std::vector<double> noise = noise_of(steps_.at(index(step)).kinds.at(kind), exact);
  const double typical = std::max(median(of_present(noise, exact)), last_bit);
  std::vector<double>& bounds = bounds_[{step, kind}];
  for (const double of_tensor : noise) {
    bounds.push_back(is_fp64 ? kFp64Bound : kNoiseFactor * std::max(of_tensor, typical));
  }
}

const std::vector<double>& Expectations::values(std::int64_t step, std::string_view kind,
                                                int parameter) const {
  return steps_.at(index(step)).kinds.find(kind)->second.at(static_cast<std::size_t>(parameter));
}

double Expectations::scale(std::int64_t step, std::string_view kind, int parameter) const {
  double of_kind = largest_.find(Key(step, kind))->second;
  // DiLoCo's momentum adds up differences of weights, so the rounding of weights stays in it: nine
  // halves of their last bit are 1e-9 of this floor.
  if (kind == "outer_momentum") {
    of_kind = std::max(of_kind, largest_.find(Key(step, "parameter"))->second);
  }
  return scale_of(values(step, kind, parameter), of_kind);
}

double Expectations::bound(std::int64_t step, std::string_view kind, int parameter) const {
  const auto found = bounds_.find(Key(step, kind));
  if (found != bounds_.end()) return found->second[static_cast<std::size_t>(parameter)];
  return follows() && kind == "gradient" ? kFp64GradientBound : kFp64Bound;
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
  return std::ranges::count(steps_, true, &ReferenceStep::skipped);
}

std::int64_t Expectations::num_either() const {
  return std::ranges::count(overflows_, Overflow::either);
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
        std::ranges::count_if(bounds, [](double bound) { return !can_judge(bound); });
    if (2 * blind <= static_cast<std::ptrdiff_t>(bounds.size())) continue;
    return fmt::format(
        "step {}: the rounding noise of this precision hides a factor of two in {} of {} tensors "
        "of kind {}: nothing is proven; verify at fp64, or with fewer steps or a smaller learning "
        "rate",
        key.first, blind, bounds.size(), key.second);
  }
  return std::nullopt;
}

}  // namespace shardsim
