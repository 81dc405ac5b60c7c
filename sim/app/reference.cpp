#include "sim/app/reference.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/kernel/random.hpp"

#include "sim/app/whole_parameters.hpp"

namespace shardsim {

namespace {

// sum += values, or sum += |values|.
void add(ReferenceTensors& sum, const ReferenceTensors& values, bool absolute) {
  if (sum.empty()) sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum[i].resize(values[i].size(), 0.0);
    for (std::size_t j = 0; j < values[i].size(); ++j) {
      sum[i][j] += absolute ? std::fabs(values[i][j]) : values[i][j];
    }
  }
}

double largest_of(const ReferenceTensors& tensors) {
  double largest = 0.0;
  for (const std::vector<double>& values : tensors) {
    for (const double value : values) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

bool all_finite(const ReferenceTensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
  });
}

}  // namespace

class ReferenceTraining::Trainer {
 public:
  Trainer(const SyncPlan& sync, const TrainingPlan& plan, const GlobalBatch& global_batch,
          Batches batches, std::function<void()> on_progress)
      : sync_(sync),
        plan_(plan),
        groups_(global_batch),
        global_batch_(global_batch.samples),
        batches_(batches),
        runtime_(std::move(on_progress)),
        parameters_(runtime_, sync_),
        scale_(initial_state(plan.loss_scaling)) {}

  ReferenceStep compute_gradients() {
    const std::int64_t first = step_++ * global_batch_;
    const auto targets = static_cast<double>(
        sync_.model->count_targets(plan_.seed, first, global_batch_, plan_.ignore_fraction));
    factor_ = targets > 0.0 ? scale_.scale * (1.0 / targets) : 0.0;
    ReferenceStep step;
    if (batches_ == Batches::whole) {
      step.loss = run(first, global_batch_, factor_);
    } else {
      run_one_by_one(first, step);
    }
    if (targets > 0.0) step.loss /= targets;
    ReferenceTensors gradients = parameters_.gradients();
    step.overflowed = !all_finite(gradients);
    step.largest = largest_of(gradients);
    step.kinds["gradient"] = std::move(gradients);
    return step;
  }

  ReferenceTensors gradients_near(double relative, std::int64_t sample) {
    const ReferenceTensors weights = parameters_.weights();
    const ReferenceTensors gradients = parameters_.gradients();
    ReferenceTensors off = weights;
    const RandomStream random(plan_.seed, "rounding errors");
    std::uint64_t index = static_cast<std::uint64_t>(step_ * kMaxSamples + sample) << 32U;
    for (std::vector<double>& values : off) {
      for (double& value : values) value *= 1.0 + relative * (2.0 * random.uniform(index++) - 1.0);
    }
    parameters_.set_weights(off);
    run((step_ - 1) * global_batch_, global_batch_, factor_);
    ReferenceTensors near = parameters_.gradients();
    parameters_.set_weights(weights);
    parameters_.set_gradients(gradients);
    return near;
  }

  void finish_step(bool skip, ReferenceStep& step) {
    step.skipped = skip;
    if (!skip) update();
    scale_ = next_state(plan_.loss_scaling, scale_, skip);
    step.next_scale = scale_.scale;
    parameters_.record_state(step);
  }

  [[nodiscard]] WholeParameters& parameters() { return parameters_; }

 private:
  // Sum of the losses; gradients are those of these samples alone.
  double run(std::int64_t first, std::int64_t count, double factor) {
    Batch batch =
        sync_.model->make_batch(runtime_, plan_.seed, first, count, plan_.ignore_fraction);
    batch.loss_scale = factor;
    batch.routing = {.balanced_samples = global_batch_ / plan_.num_microbatches,
                     .balance_scale = scale_.scale / static_cast<double>(plan_.num_microbatches),
                     .microbatch_samples = plan_.micro_batch_size,
                     .context_parts = groups_.context_parts,
                     .token_shards = groups_.token_shards};
    parameters_.zero_gradients();
    return forward_backward(*sync_.model, runtime_, parameters_, batch);
  }

  void run_one_by_one(std::int64_t first, ReferenceStep& step) {
    ReferenceTensors sum;
    ReferenceTensors sum_of_absolutes;
    const std::int64_t together = groups_.coupled_samples;
    for (std::int64_t sample = first; sample < first + global_batch_; sample += together) {
      step.loss += run(sample, together, factor_);
      const ReferenceTensors gradients = parameters_.gradients();
      add(sum, gradients, false);
      add(sum_of_absolutes, gradients, true);
    }
    step.largest_part = largest_of(sum_of_absolutes);
    parameters_.set_gradients(sum);
  }

  void update() {
    if (plan_.loss_scaling.acts()) parameters_.saturate_gradients();
    const double unscaled = 1.0 / scale_.scale;
    const double norm = parameters_.norm(plan_.grad_norm_type) * unscaled;
    const double clip =
        plan_.max_grad_norm > 0.0 ? clip_coefficient(norm, plan_.max_grad_norm) : 1.0;
    parameters_.optimize(unscaled * clip, ++updates_);
  }

  SyncPlan sync_;
  TrainingPlan plan_;
  GlobalBatch groups_;
  std::int64_t global_batch_;
  Batches batches_;
  TellingRuntime runtime_;
  WholeParameters parameters_;
  LossScaleState scale_;
  double factor_ = 0.0;  // Of the loss, in the step computed last.
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;
};

ReferenceTraining::ReferenceTraining(const SyncPlan& sync, const TrainingPlan& plan,
                                     const GlobalBatch& global_batch, Batches batches,
                                     std::function<void()> on_progress)
    : trainer_(
          std::make_unique<Trainer>(sync, plan, global_batch, batches, std::move(on_progress))) {}
ReferenceTraining::ReferenceTraining(ReferenceTraining&&) noexcept = default;
ReferenceTraining::~ReferenceTraining() = default;
ReferenceStep ReferenceTraining::compute_gradients() { return trainer_->compute_gradients(); }
ReferenceTensors ReferenceTraining::gradients_near(double relative, std::int64_t sample) {
  return trainer_->gradients_near(relative, sample);
}
void ReferenceTraining::finish_step(bool skip, ReferenceStep& step) {
  trainer_->finish_step(skip, step);
}
ReferenceKinds ReferenceTraining::state() const {
  ReferenceStep step;
  trainer_->parameters().record_state(step);
  return std::move(step.kinds);
}
void ReferenceTraining::adopt_gradients(const ReferenceTensors& gradients) {
  trainer_->parameters().set_gradients(gradients);
}
void ReferenceTraining::adopt_weights(const ReferenceTensors& weights) {
  trainer_->parameters().set_weights(weights);
}
void ReferenceTraining::adopt_state(const ReferenceKinds& kinds) {
  trainer_->parameters().set_state(kinds);
}

std::vector<ReferenceStep> train_reference(const SyncPlan& sync, const TrainingPlan& plan,
                                           const GlobalBatch& global_batch) {
  ReferenceTraining training(sync, plan, global_batch, Batches::whole);
  std::vector<ReferenceStep> steps;
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    steps.push_back(training.compute_gradients());
    training.finish_step(plan.loss_scaling.acts() && steps.back().overflowed, steps.back());
  }
  return steps;
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
