#include "strategies/training/train.hpp"

#include "strategies/gradient_sync/model_parallel_sums.hpp"
#include "strategies/model/delayed_scales.hpp"
#include "strategies/model/router_bias.hpp"

namespace shardsim {

class TrainingSession::Trainer final : public MicrobatchSource {
 public:
  Trainer(Runtime& runtime, Mesh& mesh, const StagePlan& stage, GradientSync& sync,
          const ModelParallel& parallel, const TrainingPlan& plan, TrainingObserver& observer)
      : runtime_(runtime),
        mesh_(mesh),
        model_(*stage.model),
        sync_(sync),
        plan_(plan),
        observer_(observer),
        router_biases_(parallel.router_biases),
        runner_(stage, runtime, mesh, sync, parallel),
        rank_with_loss_(stage.schedule->rank_of(stage.schedule->num_stages() - 1)),
        num_losses_(stage.model->num_losses()),
        target_count_(runtime, plan.replicas_apart ? mesh.replicas().shard : mesh.data_group(),
                      {num_losses_, DType::int64, "target_count"}),
        loss_(runtime, mesh.data_group(), {num_losses_, DType::fp64, "loss"}) {
    validate(plan);
    num_targets_.assign(static_cast<std::size_t>(num_losses_), 0.0);
    num_all_targets_ = num_targets_;  // For ends of steps that are priced alone.
    if (router_biases_ != nullptr) router_biases_->begin(runtime, model_.router_biases());
    if (parallel.delayed_scales != nullptr) {
      parallel.delayed_scales->begin(runtime, model_.parameters());
    }
    if (plan.replicas_apart) {
      all_targets_.emplace(runtime, mesh.data_group(),
                           Sums::Kind{num_losses_, DType::int64, "all_targets"});
    }
    progress_.loss_scale = initial_state(plan.loss_scaling);
  }

  void compute_gradients(std::int64_t step) {
    step_ = step;
    sync_.begin_step();
    begin_loss();
    runner_.run_step(*this);
  }

  void reduce_gradients() {
    sync_.finish_gradients();
    sum_over_model_parallel(runtime_, mesh_, model_, sync_);
    sum_router_loads();
    observer_.gradients_ready(step_, sync_);
  }

  // The observer hears of the decision before the update, so that it can tell what was changed.
  void update() {
    const double unscale = 1.0 / progress_.loss_scale.scale;
    // A plan assumes that no step overflows: scales are found in the first steps, and then hold.
    bool skipped = false;
    if (plan_.loss_scaling.acts()) {
      const bool found_inf = sync_.found_inf();
      skipped = runtime_.decide(kSkipStep, found_inf, false);
    }
    progress_.loss_scale = next_state(plan_.loss_scaling, progress_.loss_scale, skipped);
    observer_.step_decided(step_, skipped, progress_.loss_scale.scale);
    if (!skipped && sync_.has_gradients()) {
      const double scale = unscale * clip(unscale);
      ++progress_.updates;
      sync_.apply_optimizer(scale, progress_.updates);
    }
    update_router_biases();
    mean_loss_ = mean_loss();
    observer_.step_ends(step_, sync_, mean_loss_);
  }

  [[nodiscard]] TrainingProgress& progress() { return progress_; }
  void drain() { sync_.drain(); }

  double loss_everywhere() {
    if (mesh_.pp_group() == nullptr) return *mean_loss_;
    const Tensor told = runtime_.allocate(MemoryCategory::comm, {1}, DType::fp64);
    runtime_.write_scalar(told, mean_loss_.value_or(0.0));
    mesh_.pp_group()
        ->broadcast(told, rank_with_loss_, {.label = "loss", .traffic = TrafficClass::scalar})
        .wait();
    return runtime_.read_scalar(told);
  }

  Batch make_batch(int microbatch, bool with_data) override {
    Batch batch{.seed = plan_.seed, .first_sample = first_sample(microbatch), .part = part()};
    if (with_data) {
      batch = model_.make_batch(runtime_, plan_.seed, batch.first_sample, plan_.micro_batch_size,
                                plan_.ignore_fraction, part());
    }
    // A step's auxiliary loss is the mean over its microbatches, each of all data-parallel ranks.
    batch.routing.balanced_samples = plan_.micro_batch_size * mesh_.data_size();
    batch.routing.balance_scale =
        progress_.loss_scale.scale / static_cast<double>(plan_.num_microbatches);
    return batch;
  }

  void add_loss(const Tensor& loss) override {
    for (int i = 0; i < num_losses_; ++i) {
      sums_of_losses_[static_cast<std::size_t>(i)] += runtime_.read_scalar(loss.view(i, {1}));
    }
    if (++num_added_ == plan_.num_microbatches) loss_.post(sums_of_losses_);
  }

  void compute_begins() override { observer_.compute_begins(step_); }
  void compute_ends() override { observer_.compute_ends(step_); }
  void action_begins(const Action& action) override { observer_.action_begins(step_, action); }

  void set_scales(Batch& batch) override {
    if (waits_for_count_) {
      num_targets_ = target_count_.wait();
      waits_for_count_ = false;
    }
    set_loss_scales(batch, model_, num_targets_, progress_.loss_scale.scale);
  }

 private:
  // Sums some scalars over the ranks of a group, none if null, while the step continues.
  class Sums {
   public:
    struct Kind {
      int count;
      DType dtype;
      const char* label;
    };
    Sums(Runtime& runtime, Communicator* group, const Kind& kind)
        : runtime_(runtime),
          group_(group),
          label_(kind.label),
          values_(runtime.allocate(MemoryCategory::comm, {kind.count}, kind.dtype)) {}

    void post(const std::vector<double>& values) {
      for (std::int64_t i = 0; i < values_.numel(); ++i) {
        runtime_.write_scalar(values_.view(i, {1}), values[static_cast<std::size_t>(i)]);
      }
      if (group_ == nullptr) return;
      work_ = group_->all_reduce(values_, ReduceOp::sum,
                                 {.label = label_, .traffic = TrafficClass::scalar});
    }
    std::vector<double> wait() {
      work_.wait();
      std::vector<double> sums;
      for (std::int64_t i = 0; i < values_.numel(); ++i) {
        sums.push_back(runtime_.read_scalar(values_.view(i, {1})));
      }
      return sums;
    }

   private:
    Runtime& runtime_;
    Communicator* group_;
    const char* label_;
    Tensor values_;
    Work work_;
  };

  [[nodiscard]] bool has_router_biases() const {
    return router_biases_ != nullptr && !router_biases_->empty();
  }

  // Over all ranks that see other tokens: of data and context parallelism, then, as experts need
  // sequence parallelism, of tensor parallelism.
  void sum_router_loads() {
    if (!has_router_biases()) return;
    CallOptions options{.label = "router loads", .traffic = TrafficClass::scalar};
    const Tensor& loads = router_biases_->loads();
    if (mesh_.data_group() != nullptr) {
      router_loads_ = mesh_.data_group()->all_reduce(loads, ReduceOp::sum, options);
    }
    if (mesh_.tp_group() == nullptr) return;
    if (router_loads_.pending()) options.after = &router_loads_;
    router_loads_over_tp_ = mesh_.tp_group()->all_reduce(loads, ReduceOp::sum, options);
  }

  // Also after a step that is skipped, as in Megatron-Core: loads do not overflow.
  void update_router_biases() {
    if (!has_router_biases()) return;
    router_loads_.wait();
    router_loads_over_tp_.wait();
    router_biases_->update(runtime_);
  }

  // The norm is that of the gradients without the loss scale.
  [[nodiscard]] double clip(double unscale) {
    if (plan_.max_grad_norm <= 0.0) return 1.0;
    const double norm = sync_.gradient_norm(plan_.grad_norm_type);
    observer_.norm_ready(step_, norm);
    return clip_coefficient(norm * unscale, plan_.max_grad_norm);
  }

  [[nodiscard]] bool has_loss() const { return mesh_.pp() == rank_with_loss_; }

  // Losses are the last stage's. How many targets count is known without asking where all do; else
  // the count is on its way during forward.
  void begin_loss() {
    num_added_ = 0;
    sums_of_losses_.assign(static_cast<std::size_t>(num_losses_), 0.0);
    const std::int64_t replicas = plan_.replicas_apart ? mesh_.shape().dp_replicate : 1;
    num_targets_.clear();
    num_all_targets_.clear();
    for (int loss = 0; loss < num_losses_; ++loss) {
      // With no target ignored: all positions, but those whose target lies beyond the sample.
      const std::int64_t positions = global_batch() * (model_.positions_per_sample() - loss);
      const std::int64_t of_replica = positions / replicas;  // Replicas are alike.
      num_targets_.push_back(static_cast<double>(of_replica));
      num_all_targets_.push_back(static_cast<double>(positions));
    }
    waits_for_count_ = plan_.ignore_fraction > 0.0 && has_loss();
    if (!waits_for_count_) return;
    const TargetCounts own = count_own_targets();
    target_count_.post(own);
    if (all_targets_) all_targets_->post(own);
  }

  [[nodiscard]] std::optional<double> mean_loss() {
    if (!has_loss()) return std::nullopt;
    const std::vector<double> sums = loss_.wait();
    if (plan_.ignore_fraction > 0.0) {
      num_all_targets_ = all_targets_ ? all_targets_->wait() : num_targets_;
    }
    return mean_of_losses(model_, sums, num_all_targets_);
  }

  [[nodiscard]] std::int64_t global_batch() const {
    if (plan_.global_batch > 0) return plan_.global_batch;
    return plan_.micro_batch_size * plan_.num_microbatches * mesh_.data_size();
  }
  [[nodiscard]] std::int64_t first_sample(std::int64_t microbatch) const {
    return step_ * global_batch() +
           (microbatch * mesh_.data_size() + mesh_.data_rank()) * plan_.micro_batch_size;
  }

  // This rank's part of each of its samples.
  [[nodiscard]] SequencePart part() const { return {mesh_.cp(), mesh_.shape().cp}; }

  [[nodiscard]] TargetCounts count_own_targets() const {
    TargetCounts counts(static_cast<std::size_t>(num_losses_), 0.0);
    runtime_.off_the_clock([&] {
      for (std::int64_t microbatch = 0; microbatch < plan_.num_microbatches; ++microbatch) {
        for (int loss = 0; loss < num_losses_; ++loss) {
          counts[static_cast<std::size_t>(loss)] += static_cast<double>(
              model_.count_targets(plan_.seed, first_sample(microbatch), plan_.micro_batch_size,
                                   plan_.ignore_fraction, part(), loss));
        }
      }
    });
    return counts;
  }

  Runtime& runtime_;
  Mesh& mesh_;
  const Model& model_;
  GradientSync& sync_;
  const TrainingPlan& plan_;
  TrainingObserver& observer_;
  RouterBiases* router_biases_;  // Null: experts are chosen by scores alone.
  Work router_loads_;            // The sum of the step's loads, on its way.
  Work router_loads_over_tp_;    // Follows it.
  StageRunner runner_;
  int rank_with_loss_;  // In the pipeline: that of the last stage.
  int num_losses_;
  Sums target_count_;
  Sums loss_;
  std::optional<Sums> all_targets_;  // If gradients count a replica's targets only.
  std::int64_t step_ = 0;
  std::int64_t num_added_ = 0;
  std::vector<double> sums_of_losses_;
  TargetCounts num_targets_;      // Numbers that gradients are means over.
  TargetCounts num_all_targets_;  // Numbers that losses are means over.
  bool waits_for_count_ = false;
  std::optional<double> mean_loss_;
  TrainingProgress progress_;
};

TrainingSession::TrainingSession(Runtime& runtime, Mesh& mesh, const StagePlan& stage,
                                 GradientSync& sync, const ModelParallel& parallel,
                                 const TrainingPlan& plan, TrainingObserver& observer)
    : trainer_(std::make_unique<Trainer>(runtime, mesh, stage, sync, parallel, plan, observer)) {}
TrainingSession::~TrainingSession() = default;
void TrainingSession::compute_gradients(std::int64_t step) { trainer_->compute_gradients(step); }
void TrainingSession::reduce_gradients() { trainer_->reduce_gradients(); }
void TrainingSession::update() { trainer_->update(); }
void TrainingSession::drain() { trainer_->drain(); }
double TrainingSession::loss_everywhere() { return trainer_->loss_everywhere(); }
const TrainingProgress& TrainingSession::progress() const { return trainer_->progress(); }
void TrainingSession::set_progress(const TrainingProgress& progress) {
  trainer_->progress() = progress;
}

void train(Runtime& runtime, Mesh& mesh, const StagePlan& stage, GradientSync& sync,
           const ModelParallel& parallel, const TrainingPlan& plan, TrainingObserver& observer) {
  TrainingSession session(runtime, mesh, stage, sync, parallel, plan, observer);
  observer.training_begins(sync);
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    observer.step_begins(step);
    session.compute_gradients(step);
    session.reduce_gradients();
    session.update();
  }
  session.drain();
}

double clip_coefficient(double norm, double max_norm) {
  const double coefficient = max_norm / (norm + 1e-6);
  return coefficient < 1.0 ? coefficient : 1.0;
}

}  // namespace shardsim
