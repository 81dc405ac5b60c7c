#include "strategies/training/train.hpp"

#include <cmath>
#include <vector>

#include "strategies/model/module_chain.hpp"

namespace shardsim {

namespace {

// Sums a scalar over all data-parallel ranks while the step goes on.
class ScalarSum {
 public:
  ScalarSum(Runtime& runtime, Mesh& mesh, DType dtype, const char* label)
      : runtime_(runtime),
        mesh_(mesh),
        label_(label),
        value_(runtime.allocate(MemoryCategory::comm, {1}, dtype)) {}

  void post(double value) {
    runtime_.write_scalar(value_, value);
    if (mesh_.data_group() == nullptr) return;
    work_ = mesh_.data_group()->all_reduce(value_, ReduceOp::sum,
                                           {.label = label_, .traffic = TrafficClass::scalar});
  }
  double wait() {
    work_.wait();
    return runtime_.read_scalar(value_);
  }

 private:
  Runtime& runtime_;
  Mesh& mesh_;
  const char* label_;
  Tensor value_;
  Work work_;
};

class Trainer {
 public:
  Trainer(Runtime& runtime, Mesh& mesh, const Model& model, GradientSync& sync,
          const TrainingPlan& plan, TrainingObserver& observer)
      : runtime_(runtime),
        mesh_(mesh),
        model_(model),
        sync_(sync),
        plan_(plan),
        observer_(observer),
        saved_(static_cast<std::size_t>(model.num_modules())),
        target_count_(runtime, mesh, DType::int64, "target_count"),
        loss_(runtime, mesh, DType::fp64, "loss") {}

  void run_step(std::int64_t step) {
    observer_.step_begins(step);
    sync_.begin_step();
    // Known without asking where every target counts; else it is on its way during forward.
    const bool counts_targets = plan_.ignore_fraction > 0.0;
    if (counts_targets) target_count_.post(count_own_targets(step));
    double num_targets = static_cast<double>(global_batch() * model_.positions_per_sample());
    double loss = 0.0;
    for (std::int64_t microbatch = 0; microbatch < plan_.num_microbatches; ++microbatch) {
      const bool last = microbatch + 1 == plan_.num_microbatches;
      sync_.begin_microbatch(last);
      Batch batch = model_.make_batch(runtime_, plan_.seed, first_sample(step, microbatch),
                                      plan_.micro_batch_size, plan_.ignore_fraction);
      loss += runtime_.read_scalar(forward_all(model_, runtime_, sync_, batch, saved_));
      if (last) loss_.post(loss);
      if (microbatch == 0 && counts_targets) num_targets = target_count_.wait();
      batch.loss_scale = num_targets > 0.0 ? 1.0 / num_targets : 0.0;
      backward_all(model_, runtime_, sync_, batch, saved_);
    }
    sync_.finish_gradients();
    observer_.gradients_ready(step, sync_);
    const double scale = plan_.max_grad_norm > 0.0
                             ? clip_coefficient(sync_.gradient_norm_squared(), plan_.max_grad_norm)
                             : 1.0;
    sync_.apply_optimizer(scale, step + 1);
    const double mean_loss = num_targets > 0.0 ? loss_.wait() / num_targets : loss_.wait();
    observer_.step_ends(step, sync_, mean_loss);
  }

 private:
  [[nodiscard]] std::int64_t global_batch() const {
    return plan_.micro_batch_size * plan_.num_microbatches * mesh_.data_size();
  }
  [[nodiscard]] std::int64_t first_sample(std::int64_t step, std::int64_t microbatch) const {
    return step * global_batch() +
           (microbatch * mesh_.data_size() + mesh_.data_rank()) * plan_.micro_batch_size;
  }

  [[nodiscard]] double count_own_targets(std::int64_t step) const {
    std::int64_t count = 0;
    runtime_.off_the_clock([&] {
      for (std::int64_t microbatch = 0; microbatch < plan_.num_microbatches; ++microbatch) {
        count += model_.count_targets(plan_.seed, first_sample(step, microbatch),
                                      plan_.micro_batch_size, plan_.ignore_fraction);
      }
    });
    return static_cast<double>(count);
  }

  Runtime& runtime_;
  Mesh& mesh_;
  const Model& model_;
  GradientSync& sync_;
  const TrainingPlan& plan_;
  TrainingObserver& observer_;
  std::vector<Saved> saved_;
  ScalarSum target_count_;
  ScalarSum loss_;
};

}  // namespace

void train(Runtime& runtime, Mesh& mesh, const Model& model, GradientSync& sync,
           const TrainingPlan& plan, TrainingObserver& observer) {
  Trainer trainer(runtime, mesh, model, sync, plan, observer);
  for (std::int64_t step = 0; step < plan.steps; ++step) trainer.run_step(step);
}

double clip_coefficient(double norm_squared, double max_norm) {
  const double coefficient = max_norm / (std::sqrt(norm_squared) + 1e-6);
  return coefficient < 1.0 ? coefficient : 1.0;
}

}  // namespace shardsim
