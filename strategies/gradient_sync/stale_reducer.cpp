#include <utility>
#include <vector>

#include "strategies/gradient_sync/gradient_reducer.hpp"

namespace shardsim {

namespace {

// A ring of reducers, one for each step whose gradients are on their way: the oldest is waited for
// when `staleness` further steps have computed theirs, and its buffer is then filled anew.
class StaleReducer final : public GradientReducer {
 public:
  StaleReducer(std::vector<std::unique_ptr<GradientReducer>> ring) : ring_(std::move(ring)) {}

  void begin_step() override {
    ++steps_;
    newest().begin_step();
  }
  Tensor gradient(int parameter) override { return newest().gradient(parameter); }
  void reduce(int chunk) override { newest().reduce(chunk); }
  void finish() override {
    if (has_gradients()) oldest().finish();
  }
  [[nodiscard]] Tensor owned(int chunk) const override { return oldest().owned(chunk); }
  [[nodiscard]] bool has_gradients() const override { return steps_ >= ring_.size(); }
  void drain() override {
    // In the order in which they were posted.
    for (std::size_t i = 0; i < ring_.size(); ++i) ring_[(steps_ + i) % ring_.size()]->finish();
  }

 private:
  [[nodiscard]] GradientReducer& newest() const { return *ring_[(steps_ - 1) % ring_.size()]; }
  [[nodiscard]] GradientReducer& oldest() const { return *ring_[steps_ % ring_.size()]; }

  std::vector<std::unique_ptr<GradientReducer>> ring_;
  std::size_t steps_ = 0;  // Begun so far.
};

}  // namespace

std::unique_ptr<GradientReducer> make_stale_reducer(
    std::vector<std::unique_ptr<GradientReducer>> ring) {
  return std::make_unique<StaleReducer>(std::move(ring));
}

}  // namespace shardsim
