#include "sim/verify/reference_algorithm.hpp"

#include <utility>

namespace shardsim {

const ReferenceStep& ReferenceAlgorithm::step(int line, std::int64_t number) {
  while (static_cast<std::int64_t>(steps_.size()) <= number) steps_.push_back(train());
  return steps_[static_cast<std::size_t>(number)][static_cast<std::size_t>(line)];
}

SampleParts::SampleParts(const ParallelPlan& plan, std::function<void()> on_progress)
    : plan_(plan), runtime_(std::move(on_progress)) {}

std::int64_t SampleParts::first_sample(std::int64_t step, std::int64_t microbatch, int rank) const {
  const std::int64_t runs = training().num_microbatches * num_ranks();
  return (step * runs + microbatch * num_ranks() + rank) * training().micro_batch_size;
}

double SampleParts::targets(std::int64_t step, int first, int count) const {
  std::int64_t sum = 0;
  for (std::int64_t microbatch = 0; microbatch < training().num_microbatches; ++microbatch) {
    sum += sync().model->count_targets(training().seed, first_sample(step, microbatch, first),
                                       count * training().micro_batch_size,
                                       training().ignore_fraction);
  }
  return static_cast<double>(sum);
}

double SampleParts::run(std::int64_t step, int first, int count, double targets,
                        WholeParameters& parameters) {
  double loss = 0.0;
  parameters.zero_gradients();
  for (std::int64_t microbatch = 0; microbatch < training().num_microbatches; ++microbatch) {
    Batch batch =
        sync().model->make_batch(runtime_, training().seed, first_sample(step, microbatch, first),
                                 count * training().micro_batch_size, training().ignore_fraction);
    batch.loss_scale = targets > 0.0 ? 1.0 / targets : 0.0;
    loss += forward_backward(*sync().model, runtime_, parameters, batch);
  }
  return loss;
}

void SampleParts::update(WholeParameters& parameters, std::int64_t number) const {
  const double limit = training().max_grad_norm;
  const double norm = parameters.norm(training().grad_norm_type);
  parameters.optimize(limit > 0.0 ? clip_coefficient(norm, limit) : 1.0, number);
}

std::shared_ptr<ReferenceAlgorithm> make_reference_algorithm(
    const ParallelPlan& plan, const std::function<void()>& on_progress) {
  const SyncPlan& sync = plan.options().sync;
  if (sync.local.acts()) return make_local_reference(plan, on_progress);
  if (sync.compression.acts()) return make_compressed_reference(plan, on_progress);
  if (sync.max_staleness > 0) return make_late_reference(plan, on_progress);
  return nullptr;
}

int line_of(const ParallelPlan& plan, const MeshPlace& place) {
  return plan.options().sync.local.acts() ? place.dp_replicate : 0;
}

}  // namespace shardsim
