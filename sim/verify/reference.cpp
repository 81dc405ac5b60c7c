#include "sim/verify/reference.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/kernel/hash.hpp"

#include "strategies/model/close_calls.hpp"

#include "sim/verify/reference_losses.hpp"
#include "sim/verify/rounding_noise.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kCallsAtOnce = 64;

ReferenceTensors sizes_of(ReferenceTensors tensors) {
  for (std::vector<double>& values : tensors) {
    for (double& value : values) value = std::fabs(value);
  }
  return tensors;
}

// The elements of a - b, each in units of its tensor.
std::vector<double> difference(const ReferenceTensors& a, const ReferenceTensors& b,
                               const std::vector<double>& units) {
  std::vector<double> all;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double each = (a[i][j] - b[i][j]) / units[i];
      all.push_back(std::isfinite(each) ? each : 0.0);
    }
  }
  return all;
}

bool all_finite(const ReferenceTensors& tensors) {
  return std::ranges::all_of(tensors, [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
  });
}

}  // namespace

ReferenceTraining::ReferenceTraining(const SyncPlan& sync, const TrainingPlan& plan,
                                     const GlobalBatch& global_batch, Batches batches,
                                     std::function<void()> on_progress)
    : sync_(sync),
      plan_(plan),
      groups_(global_batch),
      global_batch_(global_batch.samples),
      batches_(batches),
      runtime_(std::move(on_progress)),
      parameters_(runtime_, sync_),
      exact_sums_(runtime_, *sync_.model, parameters_),
      scale_(initial_state(plan.loss_scaling)) {
  biases_.begin(runtime_, sync_.model->router_biases());
  for (const ParameterSpec& spec : sync_.model->parameters()) {
    if (scales_ || spec.low == nullptr || spec.low->recipe != ScalingRecipe::delayed) continue;
    scales_.emplace(*spec.low).begin(runtime_, sync_.model->parameters());
  }
}

ReferenceStep ReferenceTraining::compute_gradients() {
  first_ = step_++ * global_batch_;
  targets_.clear();
  for (int loss = 0; loss < sync_.model->num_losses(); ++loss) {
    targets_.push_back(static_cast<double>(sync_.model->count_targets(
        plan_.seed, first_, global_batch_, plan_.ignore_fraction, SequencePart{}, loss)));
  }
  calls_.clear();
  return compute();
}

// The step that has begun. In parts, what they decided before stays decided.
ReferenceStep ReferenceTraining::compute() {
  ReferenceStep step;
  biases_.clear_loads(runtime_);
  if (batches_ == Batches::whole) {
    run_whole(step);
  } else {
    run_in_parts(step);
  }
  if (targets_[0] > 0.0) step.loss /= targets_[0];
  if (!biases_.empty()) loads_ = values_of(biases_.loads());
  ReferenceTensors gradients = parameters_.gradients();
  step.overflowed = !all_finite(gradients);
  step.largest = largest(gradients);
  step.kinds["gradient"] = std::move(gradients);
  return step;
}

ReferenceStep ReferenceTraining::draw_gradients(std::optional<std::int64_t> draw) {
  std::optional<std::uint64_t> errors;
  if (draw) {
    RollingHash hash;
    hash.add(plan_.seed);
    hash.add(step_);
    hash.add(*draw);
    errors = hash.value();
  }
  ReferenceStep step;
  ReferenceTensors sum;
  for_each_part([&](std::size_t part, const Samples& samples) {
    const CloseCalls calls(calls_.decisions(part), OpenCalls::kAll);
    step.loss += run(samples, exact_sums_, errors);
    add_to(sum, exact_sums_.gradients());
    calls_.add_drawn(part, calls);
  });
  if (targets_[0] > 0.0) step.loss /= targets_[0];
  step.kinds["gradient"] = std::move(sum);
  return step;
}

bool ReferenceTraining::has_open_calls() const { return !calls_.open().empty(); }

std::optional<ReferenceStep> ReferenceTraining::decide_as(const ReferenceTensors& shown,
                                                          const std::vector<double>& units) {
  const ReferenceTensors mine = parameters_.gradients();
  const std::vector<OpenCalls::Place> taken =
      explain_by_calls(difference(shown, mine, units), units);
  parameters_.set_gradients(mine);
  if (taken.empty()) return std::nullopt;
  calls_.take(taken);
  ReferenceStep step = compute();
  step.num_adopted = taken.size();
  return step;
}

void ReferenceTraining::finish_step(bool skip, ReferenceStep& step) {
  step.skipped = skip;
  if (!skip) update();
  update_biases();
  finish_scales(AmaxEnd::step);
  scale_ = next_state(plan_.loss_scaling, scale_, skip);
  step.next_scale = scale_.scale;
  parameters_.record_state(step);
}

// Returns the sum of the losses; gradients are those of these samples alone. `errors`: the seed
// of drawn rounding errors. `seen`: called with each addition to a gradient.
template <class Whole>
double ReferenceTraining::run(const Samples& samples, Whole& parameters,
                              std::optional<std::uint64_t> errors, const SeenWork& seen) {
  Batch batch = sync_.model->make_batch(runtime_, plan_.seed, samples.first, samples.count,
                                        plan_.ignore_fraction);
  scale_reference_losses(batch, *sync_.model, targets_, scale_.scale);
  batch.routing = {.balanced_samples = global_batch_ / plan_.num_microbatches,
                   .balance_scale = scale_.scale / static_cast<double>(plan_.num_microbatches),
                   .microbatch_samples = plan_.micro_batch_size,
                   .context_parts = groups_.context_parts,
                   .token_shards = groups_.token_shards,
                   .expert_ranks = groups_.expert_ranks,
                   .expert_slices = groups_.expert_slices,
                   .expert_nodes = groups_.expert_nodes};
  parameters.zero_gradients();
  std::optional<StochasticRounding> drawn;
  if (errors) drawn.emplace(*errors, groups_.more_roundings);
  const ModelParallel state{.router_biases = &biases_,
                            .delayed_scales = scales_ ? &*scales_ : nullptr};
  const std::vector<double> losses =
      forward_backward(*sync_.model, runtime_, parameters, batch, state, seen);
  // Draws and trials would move scales, too. They exist beside rounding alone, where E0224 refuses
  // such scales.
  const std::int64_t microbatch = global_batch_ / plan_.num_microbatches;
  if ((samples.first + samples.count) % microbatch == 0) {
    finish_scales(AmaxEnd::forward);
    finish_scales(AmaxEnd::backward);
  }
  return joined_reference_losses(*sync_.model, losses, targets_);
}

void ReferenceTraining::finish_scales(AmaxEnd end) {
  if (scales_) scales_->finish(runtime_, end, /*chunk=*/0, {}, {});
}

// The number of samples whose gradients are one contribution.
std::int64_t ReferenceTraining::part_size() const {
  return std::min(global_batch_, std::max(groups_.coupled_samples, groups_.samples_at_once));
}

template <class Visit>
void ReferenceTraining::for_each_part(const Visit& visit) const {
  std::size_t part = 0;
  for (std::int64_t at = 0; at < global_batch_; at += part_size()) {
    visit(part++, Samples{first_ + at, std::min(part_size(), global_batch_ - at)});
  }
}

// The open calls that explain the difference best, of the nearest ones that explain any of it.
// Not all at a time: each has a pass and a gradient.
std::vector<OpenCalls::Place> ReferenceTraining::explain_by_calls(
    const std::vector<double>& rest, const std::vector<double>& units) {
  const std::vector<OpenCalls::Place> open = calls_.open();
  for (std::size_t from = 0; from < open.size(); from += kCallsAtOnce) {
    const auto begin = open.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<OpenCalls::Place> here(
        begin, begin + static_cast<std::ptrdiff_t>(std::min(kCallsAtOnce, open.size() - from)));
    std::ranges::stable_sort(here, {}, &OpenCalls::Place::part);
    std::vector<OpenCalls::Place> taken;
    for (const std::size_t i : explain(rest, changes_by(here, units))) taken.push_back(here[i]);
    if (!taken.empty()) return taken;
  }
  return {};
}

// How the gradients change by each call alone. Part by part, as each needs what was before.
std::vector<std::vector<double>> ReferenceTraining::changes_by(
    const std::vector<OpenCalls::Place>& calls, const std::vector<double>& units) {
  std::vector<std::vector<double>> changes;
  ReferenceTensors before;
  std::size_t part = 0;
  for (const OpenCalls::Place& call : calls) {
    if (before.empty() || call.part != part) before = gradients_of_part(call.part, OpenCalls::kAll);
    part = call.part;
    calls_.flip(call);
    changes.push_back(difference(gradients_of_part(part, OpenCalls::last_if(call)), before, units));
    calls_.flip(call);
  }
  return changes;
}

// The gradients of a part with its current decisions, up to the module `last`.
ReferenceTensors ReferenceTraining::gradients_of_part(std::size_t part, int last) {
  const std::int64_t at = static_cast<std::int64_t>(part) * part_size();
  const CloseCalls calls(calls_.decisions(part), last);
  static_cast<void>(run({first_ + at, std::min(part_size(), global_batch_ - at)}, parameters_));
  return parameters_.gradients();
}

SharedSum ReferenceTraining::shared_sum() const {
  const std::int64_t microbatch = global_batch_ / plan_.num_microbatches;
  const std::int64_t shares = std::int64_t{groups_.context_parts} * groups_.token_shards;
  // If ranks share samples, or a part exceeds one rank's samples, each sample counts alone.
  const bool is_shared = shares > 1 || part_size() > groups_.samples_at_once;
  return {.microbatches = plan_.num_microbatches,
          .ranks = std::max<std::int64_t>(1, microbatch / part_size()),
          .shares = shares,
          .slices = is_shared ? part_size() * shares : 1};
}

void ReferenceTraining::run_whole(ReferenceStep& step) {
  if (!groups_.has_own_scales) {
    step.loss = run({first_, global_batch_}, parameters_);
    return;
  }
  ReferenceTensors sum;
  for_each_part([&](std::size_t /*part*/, const Samples& samples) {
    step.loss += run(samples, parameters_);
    add_to(sum, parameters_.gradients());
  });
  parameters_.set_gradients(sum);
}

void ReferenceTraining::run_in_parts(ReferenceStep& step) {
  ReferenceTensors sum;
  ReferenceTensors sum_of_sizes;
  SumErrors errors(*sync_.model, shared_sum(), sync_.gradient_dtype);
  const auto seen = [&](const WeightGradient& work) { errors.add(runtime_, work); };
  OpenCalls before = std::exchange(calls_, OpenCalls());
  for_each_part([&](std::size_t part, const Samples& samples) {
    const bool is_decided = !before.empty();
    const CloseCalls calls =
        is_decided ? CloseCalls(before.decisions(part), before.last(part)) : CloseCalls();
    step.loss += run(samples, parameters_, {}, seen);
    calls_.add(calls);
    const ReferenceTensors gradients = parameters_.gradients();
    add_to(sum, gradients);
    add_to(sum_of_sizes, sizes_of(gradients));
    errors.end_part(gradients);
  });
  step.largest_part = largest(sum_of_sizes);
  SumErrors::Finished of_sums = errors.finish();
  step.sum_errors = std::move(of_sums.most);
  step.sum_variances = std::move(of_sums.variances);
  parameters_.set_gradients(sum);
}

void ReferenceTraining::update() {
  if (plan_.loss_scaling.acts()) parameters_.saturate_gradients();
  const double unscaled = 1.0 / scale_.scale;
  const double norm = parameters_.norm(plan_.grad_norm_type) * unscaled;
  const double clip = plan_.max_grad_norm > 0.0 ? clip_coefficient(norm, plan_.max_grad_norm) : 1.0;
  parameters_.optimize(unscaled * clip, ++updates_);
}

// Draws and trials have run since, and their loads do not count.
void ReferenceTraining::update_biases() {
  if (biases_.empty()) return;
  store(biases_.loads(), loads_);
  biases_.update(runtime_);
}

ReferenceKinds ReferenceTraining::state() const {
  ReferenceStep step;
  parameters_.record_state(step);
  return std::move(step.kinds);
}

std::string_view kind_name(const StatePiece& piece) {
  switch (piece.kind) {
    case StateKind::gradient:
      return "gradient";
    case StateKind::parameter:
      return "parameter";
    case StateKind::optimizer_state:
    case StateKind::rank_state:
      return piece.state;
  }
  return {};
}

}  // namespace shardsim
