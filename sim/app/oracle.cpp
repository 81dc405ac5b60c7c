#include "sim/app/oracle.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/largest_finite.hpp"

namespace shardsim {

namespace {

constexpr double kFp64Bound = 1e-9;
constexpr double kNoiseFactor = 10.0;
constexpr double kBlind = 0.45;  // Half or double differs by 0.5 or more: a bound must be below.
constexpr double kFloor = 1e-6;  // Of the largest value of the kind: below it, absolute.

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

double largest(const ReferenceTensors& tensors) {
  double most = 0.0;
  for (const std::vector<double>& values : tensors) most = std::max(most, largest(values));
  return most;
}

// Anything compared with NaN is wrong, and max() would hide it.
double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

double relative(double difference, double of) {
  if (difference == 0.0) return 0.0;
  return of > 0.0 ? difference / of : difference / std::numeric_limits<double>::min();
}

// How far each tensor of `rounded` is from `exact`.
std::vector<double> noise_of(const ReferenceTensors& rounded, const ReferenceTensors& exact) {
  const double floor = kFloor * largest(exact);
  std::vector<double> noise;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    double difference = 0.0;
    for (std::size_t j = 0; j < rounded[i].size(); ++j) {
      difference = worse(std::fabs(rounded[i][j] - exact[i][j]), difference);
    }
    noise.push_back(relative(difference, std::max(largest(exact[i]), floor)));
  }
  return noise;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::fp16:
      return 0x1p-11;
    case DType::fp32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

double unit_roundoff_of(const SyncPlan& sync) {
  return std::max(unit_roundoff(sync.weight_dtype), unit_roundoff(sync.gradient_dtype));
}

}  // namespace

Oracle::Oracle(const SyncPlan& sync, const TrainingPlan& plan, std::int64_t global_batch,
               std::unique_ptr<Model> exact_model)
    : sync_(sync),
      scales_loss_(plan.loss_scaling.acts()),
      reference_(sync, plan, global_batch, Batches::whole),
      exact_model_(std::move(exact_model)),
      gradient_noise_(kNoiseFactor * unit_roundoff_of(sync)) {
  if (exact_model_ == nullptr) return;
  SyncPlan exact = sync;
  exact.model = exact_model_.get();
  exact.weight_dtype = exact.master_dtype = exact.gradient_dtype = DType::fp64;
  exact_.emplace(exact, plan, global_batch, scales_loss_ ? Batches::one_by_one : Batches::whole);
}

void Oracle::begin(std::int64_t step) {
  while (static_cast<std::int64_t>(steps_.size()) <= step) {
    if (!last_is_decided_) decide(scales_loss_ && steps_.back().overflowed);
    const auto number = static_cast<std::int64_t>(steps_.size());
    steps_.push_back(reference_.compute_gradients());
    if (exact_) exact_step_ = exact_->compute_gradients();
    last_is_decided_ = false;
    overflows_.push_back(overflow_of(steps_.back(), exact_ ? &exact_step_ : nullptr));
    if (overflows_.back() == Overflow::no) {
      expect(number, "gradient", steps_.back().kinds["gradient"]);
    }
    if (!exact_) continue;
    const double loss = std::fabs(exact_step_.loss);
    const double noise = relative(std::fabs(steps_.back().loss - exact_step_.loss), loss);
    bounds_[{number, "loss"}].push_back(kNoiseFactor * std::max(noise, unit_roundoff_of(sync_)));
  }
}

void Oracle::decide(bool skip) {
  const auto step = static_cast<std::int64_t>(steps_.size()) - 1;
  reference_.finish_step(skip, steps_.back());
  if (exact_) exact_->finish_step(skip, exact_step_);
  for (const auto& [kind, tensors] : steps_.back().kinds) {
    if (kind != "gradient") expect(step, kind, tensors);
  }
  last_is_decided_ = true;
}

Oracle::Overflow Oracle::overflow_of(const ReferenceStep& rounded,
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

void Oracle::expect(std::int64_t step, const std::string& kind, const ReferenceTensors& tensors) {
  const Key key(step, kind);
  largest_[key] = largest(tensors);
  for (const std::vector<double>& values : tensors) holders_[key].emplace_back(values.size(), 0);
  if (exact_) {
    measure_noise(step, kind, exact_step_.kinds.at(kind == "master" ? "parameter" : kind));
  }
}

void Oracle::measure_noise(std::int64_t step, const std::string& kind,
                           const ReferenceTensors& exact) {
  const std::vector<double> noise =
      noise_of(steps_[static_cast<std::size_t>(step)].kinds.at(kind), exact);
  const double typical = std::max(median(noise), unit_roundoff_of(sync_));
  std::vector<double>& bounds = bounds_[{step, kind}];
  for (std::size_t i = 0; i < noise.size(); ++i) {
    bounds.push_back(kNoiseFactor * std::max(noise[i], typical));
    // Noise adds up over steps; a step that happens to have little does not take it back.
    bounds.back() = std::max(bounds.back(), bound_before(step, kind, static_cast<int>(i)));
    const bool is_judged = kind == "gradient" && bounds.back() <= kBlind;
    if (is_judged) gradient_noise_ = std::max(gradient_noise_, bounds.back());
  }
}

double Oracle::bound(std::int64_t step, std::string_view kind, int parameter) const {
  const auto found = bounds_.find(Key(step, kind));
  return found == bounds_.end() ? kFp64Bound : found->second[static_cast<std::size_t>(parameter)];
}

double Oracle::bound_before(std::int64_t step, std::string_view kind, int parameter) const {
  while (--step >= 0) {
    const auto found = bounds_.find(Key(step, kind));
    if (found != bounds_.end()) return found->second[static_cast<std::size_t>(parameter)];
  }
  return 0.0;
}

double& Oracle::error_of(StateKind kind) {
  switch (kind) {
    case StateKind::gradient:
      return errors_.gradients;
    case StateKind::parameter:
      return errors_.parameters;
    case StateKind::optimizer_state:
      break;
  }
  return errors_.optimizer_state;
}

void Oracle::check_gradients(std::int64_t step, const Holder& holder, const GradientSync& sync) {
  begin(step);
  Hashes hashes;
  check_kind(step, holder, sync, StateKind::gradient, hashes);
  check_replicas(step, holder, 0, hashes);
}

void Oracle::check_decision(std::int64_t step, int rank, bool skipped, double next_scale) {
  begin(step);
  const Overflow overflow = overflows_[static_cast<std::size_t>(step)];
  // Of the first rank that says what it does.
  if (is_open(step)) decide(overflow == Overflow::either ? skipped : overflow == Overflow::yes);
  const ReferenceStep& expected = steps_[static_cast<std::size_t>(step)];
  if (skipped == expected.skipped && next_scale == expected.next_scale) return;
  const auto words = [](bool is_skipped, double scale) {
    return fmt::format("{} the step and goes on with loss scale {}", is_skipped ? "skips" : "takes",
                       scale);
  };
  // Before all that follows from it.
  note({{step, -1, rank, 0},
        fmt::format("step {}, rank {}: the rank {}; one rank on the whole batch {}", step, rank,
                    words(skipped, next_scale), words(expected.skipped, expected.next_scale))});
}

void Oracle::check_state(std::int64_t step, const Holder& holder, const GradientSync& sync,
                         std::optional<double> loss) {
  begin(step);
  if (is_open(step)) decide(overflows_[static_cast<std::size_t>(step)] == Overflow::yes);
  Hashes hashes;
  check_kind(step, holder, sync, StateKind::optimizer_state, hashes);
  check_kind(step, holder, sync, StateKind::parameter, hashes);
  check_replicas(step, holder, 1, hashes);
  if (loss) compare_loss(step, holder.rank, *loss);
}

void Oracle::check_kind(std::int64_t step, const Holder& holder, const GradientSync& sync,
                        StateKind kind, Hashes& hashes) {
  // Of an overflow it is chance which elements are infinite and which are NaN.
  const bool compares =
      kind != StateKind::gradient || overflows_[static_cast<std::size_t>(step)] == Overflow::no;
  const auto check = [&](const WholePiece& whole) {
    if (compares) compare(step, holder.rank, whole.piece);
    if (compares && whole.is_main_copy) count(step, whole.piece);
    RollingHash& hash = whole.is_tied ? hashes.tied : whole.is_split ? hashes.split : hashes.whole;
    for (std::int64_t i = 0; i < whole.piece.values.numel(); ++i) {
      hash.add(std::bit_cast<std::uint64_t>(whole.piece.values.get(i)));
    }
  };
  sync.visit(kind,
             [&](const StatePiece& piece) { for_each_whole_piece(holder.part, piece, check); });
}

void Oracle::compare(std::int64_t step, int rank, const StatePiece& piece) {
  const std::string_view kind = kind_name(piece);
  const ReferenceTensors& tensors = steps_[static_cast<std::size_t>(step)].kinds.find(kind)->second;
  const std::vector<double>& expected = tensors[static_cast<std::size_t>(piece.parameter)];
  double difference = 0.0;
  double product = 0.0;  // For the least-squares factor <a, b> / <b, b>.
  double square = 0.0;
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    const double a = piece.values.get(i);
    const double b = expected[static_cast<std::size_t>(piece.first + i)];
    difference = worse(std::fabs(a - b), difference);
    product += a * b;
    square += b * b;
  }
  const double most = largest_.find(Key(step, kind))->second;
  const double error = relative(difference, std::max(largest(expected), kFloor * most));
  const double allowed = bound(step, kind, piece.parameter);
  ++num_compared_;
  if (allowed > kBlind) {
    ++num_unjudged_;  // Judged by finish(): few such tensors are noise, many are no proof.
    return;
  }
  double& worst = error_of(piece.kind);
  worst = worse(error, worst);
  if (error <= allowed) return;
  const std::string factor =
      square > 0.0 ? fmt::format("{:.4g} times", product / square) : "not zero like";
  note({{step, static_cast<int>(piece.kind), rank, piece.parameter},
        fmt::format("step {}, rank {}: {} of {} (elements {} to {}) is {} that of one rank on the "
                    "whole batch; relative error {:.3g}, bound {:.3g}",
                    step, rank, kind, name_of_parameter(piece.parameter), piece.first,
                    piece.first + piece.values.numel() - 1, factor, error, allowed)});
}

void Oracle::compare_loss(std::int64_t step, int rank, double loss) {
  const double expected = steps_[static_cast<std::size_t>(step)].loss;
  const double error = relative(std::fabs(loss - expected), std::fabs(expected));
  errors_.loss = worse(error, errors_.loss);
  if (error <= bound(step, "loss", 0)) return;
  note({{step, static_cast<int>(StateKind::optimizer_state) + 1, rank, 0},
        fmt::format("step {}, rank {}: loss {:.12g}, one rank on the whole batch has {:.12g} "
                    "(factor {:.4g})",
                    step, rank, loss, expected, loss / expected)});
}

void Oracle::note(const Failure& failure) {
  if (!first_failure_ || failure.order < first_failure_->order) first_failure_ = failure;
}

void Oracle::check_replicas(std::int64_t step, const Holder& holder, int phase,
                            const Hashes& hashes) {
  const MeshPlace& place = holder.part.place;
  check_replica(step, holder.rank, {place.pp, holder.shard, place.tp}, phase, hashes.split.value());
  check_replica(step, holder.rank, {place.pp, holder.shard, -1}, phase, hashes.whole.value());
  if (place.pp == 0 || holder.is_last_stage) {
    check_replica(step, holder.rank, {-1, holder.shard, place.tp}, phase, hashes.tied.value());
  }
}

void Oracle::check_replica(std::int64_t step, int rank, const Replica& replica, int phase,
                           std::uint64_t hash) {
  const auto [known, first] = replicas_.try_emplace({step, phase, replica}, rank, hash);
  if (first || known->second.second == hash || divergence_) return;
  divergence_ = {{step, phase, rank, 0},
                 fmt::format("step {}: ranks {} and {} hold replicas of the same {} that differ",
                             step, known->second.first, rank,
                             phase == 0 ? "gradients" : "parameters and optimizer state")};
}

void Oracle::count(std::int64_t step, const StatePiece& piece) {
  std::vector<int>& holders =
      holders_.find(Key(step, kind_name(piece)))->second[static_cast<std::size_t>(piece.parameter)];
  const auto first = static_cast<std::size_t>(piece.first);
  for (std::size_t i = 0; i < static_cast<std::size_t>(piece.values.numel()); ++i) {
    ++holders[first + i];
  }
}

void Oracle::finish() {
  unproven_ = find_gap();
  if (!unproven_) unproven_ = find_unverifiable();
}

// Each element of a kind is held by the same number of ranks, one at least: shards cover and do not
// overlap.
std::optional<std::string> Oracle::find_gap() const {
  for (const auto& [key, tensors] : holders_) {
    const int holders = tensors.empty() || tensors.front().empty() ? 1 : tensors.front().front();
    for (std::size_t parameter = 0; parameter < tensors.size(); ++parameter) {
      for (std::size_t i = 0; i < tensors[parameter].size(); ++i) {
        const int here = tensors[parameter][i];
        if (here == holders && here > 0) continue;
        return fmt::format(
            "step {}: element {} of the {} of {} is held by {} ranks, the first "
            "element of the model by {}: shards do not cover, or overlap",
            key.first, i, key.second, name_of_parameter(static_cast<int>(parameter)), here,
            holders);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> Oracle::find_unverifiable() const {
  if (num_skipped() == static_cast<std::int64_t>(steps_.size())) {
    return fmt::format(
        "all {} steps were skipped, as gradients overflowed: nothing is proven; use more steps, or "
        "a smaller training.loss_scale",
        steps_.size());
  }
  for (const auto& [key, bounds] : bounds_) {
    const auto blind = std::count_if(bounds.begin(), bounds.end(),
                                     [](double bound) { return !(bound <= kBlind); });
    if (2 * blind <= static_cast<std::ptrdiff_t>(bounds.size())) continue;
    return fmt::format(
        "step {}: the rounding noise of this precision hides a factor of two in {} "
        "of {} tensors of kind {}: nothing is proven; verify at fp64, or with fewer "
        "steps or a smaller learning rate",
        key.first, blind, bounds.size(), key.second);
  }
  return std::nullopt;
}

std::string Oracle::name_of_parameter(int parameter) const {
  return sync_.model->parameters()[static_cast<std::size_t>(parameter)].name;
}

std::string Oracle::detail() const {
  if (first_failure_) return first_failure_->text;
  if (divergence_) return divergence_->text;
  if (unproven_) return *unproven_;
  double widest = kFp64Bound;
  for (const auto& [_, bounds] : bounds_) {
    for (const double bound : bounds) {
      if (bound <= kBlind) widest = std::max(widest, bound);
    }
  }
  std::string text = fmt::format(
      "{} pieces of tensors of {} steps equal one rank on the whole batch within {:.3g}",
      num_compared_ - num_unjudged_, steps_.size(), widest);
  if (num_unjudged_ > 0) {
    text += fmt::format("; {} are below the rounding noise of this precision", num_unjudged_);
  }
  if (num_skipped() > 0) {
    text += fmt::format("; the same {} of these steps were skipped", num_skipped());
  }
  const auto either = std::count(overflows_.begin(), overflows_.end(), Overflow::either);
  if (either > 0) {
    text += fmt::format("; whether a gradient overflows hung on the order of sums in {}", either);
  }
  return text;
}

std::int64_t Oracle::num_skipped() const {
  return std::count_if(steps_.begin(), steps_.end(),
                       [](const ReferenceStep& step) { return step.skipped; });
}

}  // namespace shardsim
