#include "sim/verify/oracle.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "backends/reduce.hpp"

#include "sim/verify/rounding_noise.hpp"

namespace shardsim {

namespace {

// The norm's sums are in fp64: 2^-53 for each of 10^6 elements.
constexpr double kNormBound = 1e-9;

double norm_of(const ReferenceTensors& gradients, NormType type) {
  double sum = 0.0;
  double most = 0.0;
  for (const std::vector<double>& values : gradients) {
    for (const double value : values) {
      sum += value * value;
      most = std::isnan(value) ? HUGE_VAL : std::fmax(most, std::fabs(value));
    }
  }
  return type == NormType::two ? std::sqrt(sum) : most;
}

}  // namespace

Oracle::Oracle(const SyncPlan& sync, const TrainingPlan& plan, const GlobalBatch& global_batch,
               std::unique_ptr<Model> exact_model, int num_ranks,
               const std::function<void()>& on_progress)
    : sync_(sync),
      norm_type_(plan.grad_norm_type),
      expected_(sync, plan, global_batch, std::move(exact_model), on_progress),
      num_ranks_(num_ranks) {}

Oracle::Oracle(const SyncPlan& sync, std::shared_ptr<ReferenceAlgorithm> algorithm, int line,
               int num_ranks)
    : sync_(sync), expected_(sync, std::move(algorithm), line), num_ranks_(num_ranks) {}

double& Oracle::error_of(StateKind kind) {
  switch (kind) {
    case StateKind::gradient:
      return errors_.gradients;
    case StateKind::parameter:
      return errors_.parameters;
    case StateKind::optimizer_state:
    case StateKind::rank_state:
      break;
  }
  return errors_.optimizer_state;
}

void Oracle::check_gradients(std::int64_t step, const Holder& holder, const GradientSync& sync) {
  // All ranks of a correct program have shown their state: its gradients are sums over ranks.
  if (num_waiting_ > 0 && waiting_step_ < step) settle();
  expected_.begin(step);
  Shown shown;
  show(step, holder, sync, StateKind::gradient, shown);
  keep_replicas(step, holder, 0, shown);
}

void Oracle::decide(std::int64_t step, bool skip) {
  if (!expected_.is_open(step)) return;
  const ReferenceKinds gradients = gradients_.take();
  const auto found = gradients.find("gradient");
  if (found != gradients.end()) {
    if (!waiting_gradients_.empty()) expected_.decide_as(found->second);
    check_mean_squares(step, found->second);
    norm_ = {step, norm_of(found->second, norm_type_)};
    expected_.adopt_gradients(found->second);
  }
  for (const Waiting& each : waiting_gradients_) judge(step, each.rank, each.whole);
  waiting_gradients_.clear();
  for (const auto& [rank, norm] : waiting_norms_) compare_norm(step, rank, norm);
  waiting_norms_.clear();
  expected_.decide(skip);
}

void Oracle::check_mean_squares(std::int64_t step, const ReferenceTensors& gradients) {
  for (int parameter = 0; parameter < static_cast<int>(gradients.size()); ++parameter) {
    const auto found = expected_.mean_square_of(parameter, gradients);
    if (!found || found->error <= found->bound) continue;
    note({{step, static_cast<int>(StateKind::gradient), num_ranks_, parameter},
          fmt::format("step {}: gradient of {}: each element is within its bound, but the root "
                      "mean square of the differences from {} is {:.3g}; rounding explains {:.3g}",
                      step, name_of_parameter(parameter), expected_.reference_words(), found->error,
                      found->bound)});
  }
}

void Oracle::check_decision(std::int64_t step, int rank, bool skipped, double next_scale) {
  expected_.begin(step);
  // Without loss scaling there is nothing to decide, and no rank waits here for the others, whose
  // gradients the reference needs.
  if (!expected_.scales_loss() && !skipped) return;
  // If either is right, the reference follows the decision of the first rank.
  const Overflow overflow = expected_.overflow(step);
  decide(step, overflow == Overflow::either ? skipped : overflow == Overflow::yes);
  const ReferenceStep& expected = expected_.step(step);
  if (skipped == expected.skipped && next_scale == expected.next_scale) return;
  const auto words = [](bool is_skipped, double scale) {
    return fmt::format("{} the step and goes on with loss scale {}", is_skipped ? "skips" : "takes",
                       scale);
  };
  // It is reported before all its consequences.
  note({{step, -1, rank, 0},
        fmt::format("step {}, rank {}: the rank {}; one rank on the whole batch {}", step, rank,
                    words(skipped, next_scale), words(expected.skipped, expected.next_scale))});
}

void Oracle::check_state(std::int64_t step, const Holder& holder, const GradientSync& sync,
                         std::optional<double> loss) {
  expected_.begin(step);
  const bool waits = expected_.follows() && (step > waiting_step_ || num_waiting_ > 0);
  if (waits) {
    waiting_step_ = step;
    ++num_waiting_;
  } else {
    decide(step, expected_.overflow(step) == Overflow::yes);
  }
  Shown shown;
  show(step, holder, sync, StateKind::optimizer_state, shown);
  show(step, holder, sync, StateKind::parameter, shown);
  show(step, holder, sync, StateKind::rank_state, shown);
  keep_replicas(step, holder, 1, shown);
  if (loss && waits) {
    waiting_losses_.emplace_back(holder.rank, *loss);
  } else if (loss) {
    compare_loss(step, holder.rank, *loss);
  }
  if (waits && num_waiting_ == num_ranks_) settle();
}

void Oracle::settle() {
  const std::int64_t step = waiting_step_;
  decide(step, expected_.overflow(step) == Overflow::yes);
  PiecedState state;
  for (const Waiting& each : waiting_) {
    judge(step, each.rank, each.whole);
    const StatePiece& piece = each.whole.piece;
    state.add(piece, expected_.step(step).kinds.find(kind_name(piece))->second);
  }
  for (const auto& [rank, loss] : waiting_losses_) compare_loss(step, rank, loss);
  waiting_losses_.clear();
  if (!expected_.step(step).skipped) check_rounding(step, state.kinds());
  expected_.adopt_state(state.take());
  waiting_.clear();
  num_waiting_ = 0;
}

// The bound of narrow weights would hide that some were not refreshed: an update is smaller.
void Oracle::check_rounding(std::int64_t step, const ReferenceKinds& state) {
  const auto masters = state.find("master");
  const auto weights = state.find("parameter");
  if (masters == state.end() || weights == state.end()) return;
  for (std::size_t i = 0; i < weights->second.size(); ++i) {
    const std::vector<double>& values = weights->second[i];
    const Tensor rounded =
        Tensor::allocate(nullptr, MemoryCategory::activations,
                         {static_cast<std::int64_t>(values.size())}, sync_.weight_dtype, false);
    store(rounded, masters->second[i]);
    for (std::int64_t j = 0; j < rounded.numel(); ++j) {
      if (rounded.get(j) == values[static_cast<std::size_t>(j)]) continue;
      const int parameter = static_cast<int>(i);
      note({{step, static_cast<int>(StateKind::parameter), -1, parameter},
            fmt::format("step {}: element {} of parameter {} is {:.9g}, but its master, {:.9g}, "
                        "rounds to {:.9g}",
                        step, j, name_of_parameter(parameter), values[static_cast<std::size_t>(j)],
                        masters->second[i][static_cast<std::size_t>(j)], rounded.get(j))});
      return;
    }
  }
}

void Oracle::show(std::int64_t step, const Holder& holder, const GradientSync& sync, StateKind kind,
                  Shown& shown) {
  const bool follows = expected_.follows() && expected_.is_open(step);
  const auto visit = [&](const WholePiece& whole) {
    // State that no other rank has is no replica.
    if (kind != StateKind::rank_state) {
      Fingerprints& of_part = whole.copies > 1 ? shown.copied[whole.copies] : shown.split;
      Fingerprints& of_tensor = whole.is_split ? of_part : shown.whole;
      Fingerprints& of_dense = whole.is_tied ? shown.tied : of_tensor;
      (whole.is_of_experts ? shown.experts : of_dense).add(whole.piece);
    }
    const auto keep = [&](std::vector<Waiting>& waiting) {
      waiting.push_back({holder.rank, whole});
      // Whether a buffer in flight is read, has been asked where its fingerprint was taken.
      waiting.back().whole.piece.values = unwatched_copy(whole.piece.values);
    };
    const bool is_gradient = kind == StateKind::gradient;
    if (!is_gradient && num_waiting_ > 0) return keep(waiting_);
    if (is_gradient && follows) {
      gradients_.add(whole.piece, expected_.step(step).kinds.at("gradient"));
      if (expected_.has_open_calls()) return keep(waiting_gradients_);
    }
    // After an overflow it is random which elements are infinite and which are NaN.
    if (!is_gradient || expected_.overflow(step) != Overflow::yes) judge(step, holder.rank, whole);
  };
  sync.visit(kind,
             [&](const StatePiece& piece) { for_each_whole_piece(holder.part, piece, visit); });
}

void Oracle::judge(std::int64_t step, int rank, const WholePiece& whole) {
  const StatePiece& piece = whole.piece;
  if (!expected_.has(step, kind_name(piece))) {
    note({{step, static_cast<int>(piece.kind), rank, piece.parameter},
          fmt::format("step {}, rank {}: there is a {} of {}, of which {} has none", step, rank,
                      kind_name(piece), name_of_parameter(piece.parameter),
                      expected_.reference_words())});
    return;
  }
  compare(step, rank, piece);
  if (!whole.is_main_copy) return;
  coverage_.count(step, piece, expected_.values(step, kind_name(piece), piece.parameter).size());
}

void Oracle::compare(std::int64_t step, int rank, const StatePiece& piece) {
  const std::string_view kind = kind_name(piece);
  const std::vector<double>& expected = expected_.values(step, kind, piece.parameter);
  // If a sum may or may not overflow, ranks may have it infinite: then they skip the step.
  const bool may_overflow =
      piece.kind == StateKind::gradient && expected_.overflow(step) == Overflow::either;
  double difference = 0.0;
  double product = 0.0;  // For the least-squares factor <a, b> / <b, b>.
  double square = 0.0;
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    const double a = piece.values.get(i);
    const double b = expected[static_cast<std::size_t>(piece.first + i)];
    if (may_overflow && !std::isfinite(a)) continue;
    difference = worse(std::fabs(a - b), difference);
    product += a * b;
    square += b * b;
  }
  const double error = relative(difference, expected_.scale(step, kind, piece.parameter));
  const double allowed = expected_.bound(step, kind, piece.parameter);
  ++num_compared_;
  if (Expectations::can_judge(allowed)) {
    double& worst = error_of(piece.kind);
    worst = worse(error, worst);
  } else {
    ++num_unjudged_;  // Judged by finish(), too: few such tensors are noise, many are no proof.
  }
  if (error <= allowed) return;
  const std::string factor =
      square > 0.0 ? fmt::format("{:.4g} times", product / square) : "not zero like";
  note({{step, static_cast<int>(piece.kind), rank, piece.parameter},
        fmt::format("step {}, rank {}: {} of {} (elements {} to {}) is {} that of {}; relative "
                    "error {:.3g}, bound {:.3g}",
                    step, rank, kind, name_of_parameter(piece.parameter), piece.first,
                    piece.first + piece.values.numel() - 1, factor, expected_.reference_words(),
                    error, allowed)});
}

void Oracle::compare_loss(std::int64_t step, int rank, double loss) {
  const double expected = expected_.step(step).loss;
  const double error = relative(std::fabs(loss - expected), std::fabs(expected));
  errors_.loss = worse(error, errors_.loss);
  ++num_losses_;
  if (error <= expected_.bound(step, "loss", 0)) return;
  note({{step, static_cast<int>(StateKind::optimizer_state) + 1, rank, 0},
        fmt::format("step {}, rank {}: loss {:.12g}, {} has {:.12g} (factor {:.4g})", step, rank,
                    loss, expected_.reference_words(), expected, loss / expected)});
}

void Oracle::check_norm(std::int64_t step, int rank, double norm) {
  if (!expected_.follows()) return;
  // With loss scaling the gradients of all ranks are known by now.
  if (expected_.is_open(step)) {
    waiting_norms_.emplace_back(rank, norm);
  } else {
    compare_norm(step, rank, norm);
  }
}

// Both are sums of the same numbers, in fp64.
void Oracle::compare_norm(std::int64_t step, int rank, double norm) {
  if (norm_.first != step || !std::isfinite(norm_.second)) return;
  ++num_norms_;
  const double error = relative(std::fabs(norm - norm_.second), norm_.second);
  errors_.norm = worse(error, errors_.norm.value_or(0.0));
  if (error <= kNormBound) return;
  // Behind the gradients of its step, and before all that is made of them.
  note({{step, static_cast<int>(StateKind::gradient), num_ranks_, num_parameters()},
        fmt::format("step {}, rank {}: norm of all gradients is {:.9g} times that of the gradients "
                    "that the ranks show, {:.6g} instead of {:.6g}; each must count once",
                    step, rank, norm / norm_.second, norm, norm_.second)});
}

int Oracle::num_parameters() const { return static_cast<int>(sync_.model->parameters().size()); }

void Oracle::note(const Failure& failure) {
  if (!first_failure_ || failure.order < first_failure_->order) first_failure_ = failure;
}

void Oracle::keep_replicas(std::int64_t step, const Holder& holder, int phase, const Shown& shown) {
  const MeshPlace& place = holder.part.place;
  const auto keep = [&](const ReplicaGroup& group, const Fingerprints& fingerprints) {
    replicas_.add(step, phase, group, holder.rank, fingerprints);
  };
  constexpr WeightKind kDense = WeightKind::dense;
  keep({kDense, place.pp, holder.shard, 1, place.tp}, shown.split);
  for (const auto& [copies, fingerprints] : shown.copied) {
    keep({kDense, place.pp, holder.shard, copies, place.tp / copies}, fingerprints);
  }
  keep({kDense, place.pp, holder.shard, 1, -1}, shown.whole);
  if (place.pp == 0 || holder.has_last_stage) {
    keep({kDense, -1, holder.shard, 1, place.tp}, shown.tied);
  }
  keep({WeightKind::expert, place.pp, holder.expert_shard, 1, holder.part.expert_part},
       shown.experts);
}

void Oracle::finish() {
  if (num_waiting_ > 0) settle();
  divergence_ = replicas_.find_difference(*sync_.model);
  unproven_ = coverage_.find_gap(expected_, *sync_.model);
  if (!unproven_) unproven_ = expected_.find_unverifiable();
}

std::string Oracle::name_of_parameter(int parameter) const {
  return sync_.model->parameters()[static_cast<std::size_t>(parameter)].name;
}

std::string Oracle::detail() const {
  if (first_failure_) return first_failure_->text;
  if (divergence_) return *divergence_;
  if (unproven_) return *unproven_;
  std::string text =
      fmt::format("{} pieces of tensors and {} losses of {} steps equal {} within {:.3g}",
                  num_compared_ - num_unjudged_, num_losses_, expected_.num_steps(),
                  expected_.reference_words(), expected_.widest_bound());
  if (num_unjudged_ > 0) {
    text += fmt::format("; {} are below the rounding noise of this precision", num_unjudged_);
  }
  if (num_norms_ > 0) {
    text += fmt::format("; {} norms for clipping are those of all gradients", num_norms_);
  }
  if (expected_.num_skipped() > 0) {
    text += fmt::format("; the same {} of these steps were skipped", expected_.num_skipped());
  }
  if (expected_.num_either() > 0) {
    text += fmt::format("; whether a gradient overflows hung on the order of sums in {}",
                        expected_.num_either());
  }
  if (expected_.num_adopted() > 0) {
    text += fmt::format("; {} close calls of ReLU or routers were decided as the ranks did",
                        expected_.num_adopted());
  }
  return text;
}

}  // namespace shardsim
