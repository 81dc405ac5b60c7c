#include "sim/verify/reference_algorithm.hpp"

#include <deque>
#include <string>
#include <utility>

#include "strategies/gradient_sync/compressors.hpp"

#include "sim/verify/reference_losses.hpp"

namespace shardsim {

namespace {

// One copy of the model per replica, all on one device, trained one after the other.
class LocalReference final : public ReferenceAlgorithm {
 public:
  LocalReference(const ParallelPlan& plan, const std::function<void()>& on_progress)
      : parts_(plan, on_progress),
        rule_(plan.options().sync.local),
        ranks_(plan.options().mesh.dp_shard) {
    for (int i = 0; i < plan.options().mesh.dp_replicate; ++i) {
      copies_.push_back(std::make_unique<WholeParameters>(parts_.runtime(), parts_.sync()));
    }
    start_ = copies_.front()->masters();
    momentum_ = zeros_like(start_);
  }

  [[nodiscard]] int num_lines() const override { return static_cast<int>(copies_.size()); }

 protected:
  std::vector<ReferenceStep> train() override {
    std::vector<ReferenceStep> lines(copies_.size());
    LossSums sums;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const int first = static_cast<int>(i) * ranks_;
      parts_.run(step_, first, ranks_, parts_.targets(step_, first, ranks_), *copies_[i], sums);
      lines[i].kinds["gradient"] = copies_[i]->gradients();
      parts_.update(*copies_[i], step_ + 1);
    }
    const TargetCounts targets = parts_.targets(step_, 0, parts_.num_ranks());
    if ((++step_) % rule_.sync_period == 0) average();
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      lines[i].loss = mean_reference_loss(*parts_.sync().model, sums, targets);
      copies_[i]->record_state(lines[i]);
      if (!rule_.outer_optimizer) continue;
      lines[i].kinds["outer_start"] = start_;
      lines[i].kinds["outer_momentum"] = momentum_;
    }
    return lines;
  }

 private:
  [[nodiscard]] ReferenceTensors mean_of_copies() const {
    ReferenceTensors mean = copies_.front()->masters();
    for (std::size_t copy = 1; copy < copies_.size(); ++copy) {
      add_to(mean, copies_[copy]->masters());
    }
    for (std::vector<double>& values : mean) {
      for (double& value : values) value /= static_cast<double>(copies_.size());
    }
    return mean;
  }

  void average() {
    ReferenceTensors mean = mean_of_copies();
    if (rule_.outer_optimizer) mean = outer_step(mean);
    for (const std::unique_ptr<WholeParameters>& copy : copies_) copy->set_masters(mean);
  }

  // SGD with Nesterov momentum: the step is the gradient plus the momentum that it has just fed.
  ReferenceTensors outer_step(const ReferenceTensors& mean) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      for (std::size_t j = 0; j < mean[i].size(); ++j) {
        const double gradient = start_[i][j] - mean[i][j];
        momentum_[i][j] = rule_.outer_momentum * momentum_[i][j] + gradient;
        start_[i][j] -=
            rule_.outer_learning_rate * (gradient + rule_.outer_momentum * momentum_[i][j]);
      }
    }
    return start_;
  }

  SampleParts parts_;
  LocalTraining rule_;
  int ranks_;  // In a replica.
  std::vector<std::unique_ptr<WholeParameters>> copies_;
  ReferenceTensors start_;
  ReferenceTensors momentum_;
  std::int64_t step_ = 0;
};

// One device on the whole batch that applies each gradient a fixed number of updates late.
class LateReference final : public ReferenceAlgorithm {
 public:
  LateReference(const ParallelPlan& plan, const std::function<void()>& on_progress)
      : parts_(plan, on_progress),
        staleness_(static_cast<std::size_t>(plan.options().sync.max_staleness)),
        model_(parts_.runtime(), parts_.sync()) {}

 protected:
  std::vector<ReferenceStep> train() override {
    std::vector<ReferenceStep> lines(1);
    ReferenceStep& step = lines.front();
    const TargetCounts targets = parts_.targets(step_, 0, parts_.num_ranks());
    LossSums sums;
    parts_.run(step_, 0, parts_.num_ranks(), targets, model_, sums);
    step.loss = mean_reference_loss(*parts_.sync().model, sums, targets);
    ++step_;
    waiting_.push_back(model_.gradients());
    if (waiting_.size() > staleness_) {
      model_.set_gradients(waiting_.front());
      step.kinds["gradient"] = waiting_.front();
      waiting_.pop_front();
      parts_.update(model_, ++updates_);
    }
    model_.record_state(step);
    return lines;
  }

 private:
  SampleParts parts_;
  std::size_t staleness_;
  WholeParameters model_;
  std::deque<ReferenceTensors> waiting_;  // The oldest first.
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;
};

// --- Compressed gradients ----------------------------------------------------------------------

// Computes and compresses every rank's gradient, with the residual of its last compression, and
// adds all up. Unless parcels go to all, the owners then compress the sum in the same way, which
// adds one residual. How a bucket is compressed is said by the compressor's row, in doubles.
class CompressedReference final : public ReferenceAlgorithm {
 public:
  CompressedReference(const ParallelPlan& plan, const std::function<void()>& on_progress)
      : parts_(plan, on_progress),
        layout_(plan.layout(0)),
        rule_(plan.options().sync.compression),
        model_(parts_.runtime(), parts_.sync()) {
    residual_of_sum_ = zeros_like(model_.gradients());
    residuals_.assign(static_cast<std::size_t>(parts_.num_ranks()), residual_of_sum_);
  }

 protected:
  std::vector<ReferenceStep> train() override {
    std::vector<ReferenceStep> lines(1);
    ReferenceStep& step = lines.front();
    const TargetCounts targets = parts_.targets(step_, 0, parts_.num_ranks());
    ReferenceTensors sum;
    LossSums sums;
    for (int rank = 0; rank < parts_.num_ranks(); ++rank) {
      parts_.run(step_, rank, 1, targets, model_, sums);
      ReferenceTensors received =
          send(model_.gradients(), residuals_[static_cast<std::size_t>(rank)]);
      if (sum.empty()) {
        sum = std::move(received);
      } else {
        add_to(sum, received);
      }
    }
    step.loss = mean_reference_loss(*parts_.sync().model, sums, targets);
    const bool twice = !rule_.compressor->route.to_all;
    if (twice) sum = send(sum, residual_of_sum_);
    model_.set_gradients(sum);
    step.kinds["gradient"] = sum;
    parts_.update(model_, ++step_);
    model_.record_state(step);
    if (!rule_.error_feedback) return lines;
    const std::string name = twice ? "worker_error" : "residual";
    for (std::size_t rank = 0; rank < residuals_.size(); ++rank) {
      step.kinds[name + " of data rank " + std::to_string(rank)] = residuals_[rank];
    }
    if (twice) step.kinds["server_error"] = residual_of_sum_;
    return lines;
  }

 private:
  // Compresses a gradient bucket by bucket; `residual` is the sender's.
  ReferenceTensors send(const ReferenceTensors& gradient, ReferenceTensors& residual) {
    ReferenceTensors received = gradient;
    for (const FlatChunk& bucket : layout_.chunks()) {
      std::vector<double> values;
      for (const int parameter : bucket.parameters) {
        const auto i = static_cast<std::size_t>(parameter);
        for (std::size_t j = 0; j < gradient[i].size(); ++j) {
          values.push_back(gradient[i][j] + (rule_.error_feedback ? residual[i][j] : 0.0));
        }
      }
      const CompressedValues sent = rule_.compressor->in_doubles(values, rule_);
      std::size_t at = 0;
      for (const int parameter : bucket.parameters) {
        const auto i = static_cast<std::size_t>(parameter);
        for (std::size_t j = 0; j < gradient[i].size(); ++j, ++at) {
          received[i][j] = sent.received[at];
          residual[i][j] = sent.left[at];
        }
      }
    }
    return received;
  }

  SampleParts parts_;
  const FlatLayout& layout_;  // Which parameters share a bucket, and in which order.
  GradientCompression rule_;
  WholeParameters model_;
  std::vector<ReferenceTensors> residuals_;  // By data rank.
  ReferenceTensors residual_of_sum_;         // That of all its owners, if they compress it.
  std::int64_t step_ = 0;
};

}  // namespace

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

TargetCounts SampleParts::targets(std::int64_t step, int first, int count) const {
  const Model& model = *sync().model;
  TargetCounts sums;
  for (int loss = 0; loss < model.num_losses(); ++loss) {
    std::int64_t sum = 0;
    for (std::int64_t microbatch = 0; microbatch < training().num_microbatches; ++microbatch) {
      sum += model.count_targets(training().seed, first_sample(step, microbatch, first),
                                 count * training().micro_batch_size, training().ignore_fraction,
                                 SequencePart{}, loss);
    }
    sums.push_back(static_cast<double>(sum));
  }
  return sums;
}

void SampleParts::run(std::int64_t step, int first, int count, const TargetCounts& targets,
                      WholeParameters& parameters, LossSums& sums) {
  sums.resize(static_cast<std::size_t>(sync().model->num_losses()), 0.0);
  parameters.zero_gradients();
  for (std::int64_t microbatch = 0; microbatch < training().num_microbatches; ++microbatch) {
    // Scales of quantized tensors are those of one rank's samples.
    const std::int64_t samples = count * training().micro_batch_size;
    const std::int64_t at_once = quantizes(*sync().model) ? training().micro_batch_size : samples;
    for (std::int64_t at = 0; at < samples; at += at_once) {
      Batch batch = sync().model->make_batch(runtime_, training().seed,
                                             first_sample(step, microbatch, first) + at, at_once,
                                             training().ignore_fraction);
      scale_reference_losses(batch, *sync().model, targets, 1.0);
      const LossSums here = forward_backward(*sync().model, runtime_, parameters, batch);
      for (std::size_t i = 0; i < here.size(); ++i) sums[i] += here[i];
    }
  }
}

void SampleParts::update(WholeParameters& parameters, std::int64_t number) const {
  const double limit = training().max_grad_norm;
  const double norm = parameters.norm(training().grad_norm_type);
  parameters.optimize(limit > 0.0 ? clip_coefficient(norm, limit) : 1.0, number);
}

std::shared_ptr<ReferenceAlgorithm> make_reference_algorithm(
    const ParallelPlan& plan, const std::function<void()>& on_progress) {
  const SyncPlan& sync = plan.options().sync;
  if (sync.local.acts()) return std::make_shared<LocalReference>(plan, on_progress);
  if (sync.compression.acts()) return std::make_shared<CompressedReference>(plan, on_progress);
  if (sync.max_staleness > 0) return std::make_shared<LateReference>(plan, on_progress);
  return nullptr;
}

int line_of(const ParallelPlan& plan, const MeshPlace& place) {
  return plan.options().sync.local.acts() ? place.dp_replicate : 0;
}

}  // namespace shardsim
