#include <string>

#include "sim/verify/reference_algorithm.hpp"

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
    momentum_ = start_;
    for (std::vector<double>& values : momentum_) values.assign(values.size(), 0.0);
  }

  [[nodiscard]] int num_lines() const override { return static_cast<int>(copies_.size()); }

 protected:
  std::vector<ReferenceStep> train() override {
    std::vector<ReferenceStep> lines(copies_.size());
    double loss = 0.0;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const int first = static_cast<int>(i) * ranks_;
      loss += parts_.run(step_, first, ranks_, parts_.targets(step_, first, ranks_), *copies_[i]);
      lines[i].kinds["gradient"] = copies_[i]->gradients();
      parts_.update(*copies_[i], step_ + 1);
    }
    const double targets = parts_.targets(step_, 0, parts_.num_ranks());
    if ((++step_) % rule_.sync_period == 0) average();
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      lines[i].loss = targets > 0.0 ? loss / targets : loss;
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
      const ReferenceTensors more = copies_[copy]->masters();
      for (std::size_t i = 0; i < mean.size(); ++i) {
        for (std::size_t j = 0; j < mean[i].size(); ++j) mean[i][j] += more[i][j];
      }
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

}  // namespace

std::shared_ptr<ReferenceAlgorithm> make_local_reference(const ParallelPlan& plan,
                                                         const std::function<void()>& on_progress) {
  return std::make_shared<LocalReference>(plan, on_progress);
}

}  // namespace shardsim
