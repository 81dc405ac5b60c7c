#include <deque>

#include "sim/verify/reference_algorithm.hpp"

namespace shardsim {

namespace {

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
    const double targets = parts_.targets(step_, 0, parts_.num_ranks());
    step.loss = parts_.run(step_, 0, parts_.num_ranks(), targets, model_);
    if (targets > 0.0) step.loss /= targets;
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

}  // namespace

std::shared_ptr<ReferenceAlgorithm> make_late_reference(const ParallelPlan& plan,
                                                        const std::function<void()>& on_progress) {
  return std::make_shared<LateReference>(plan, on_progress);
}

}  // namespace shardsim
