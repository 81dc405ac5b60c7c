#include "tests/mutants/first_microbatch.hpp"

#include <memory>

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

#include "tests/mutants/wrapped_sync.hpp"

namespace shardsim::test {

namespace {

// Any gradient synchronization that takes the first microbatch for the last, and the gradients of
// later ones into memory that nobody reads.
class FirstMicrobatchSync final : public GradientSyncWrapper {
 public:
  FirstMicrobatchSync(GradientSync& inner, Runtime& runtime, const FlatLayout& layout, DType dtype)
      : GradientSyncWrapper(inner), runtime_(runtime), layout_(layout), dtype_(dtype) {}

  void begin_step() override {
    num_microbatches_ = 0;
    inner_.begin_step();
  }
  void begin_weight_gradients(int chunk, bool /*last*/) override {
    ++num_microbatches_;
    if (is_first()) inner_.begin_weight_gradients(chunk, true);
  }
  Tensor gradient(int parameter) override {
    if (is_first()) return inner_.gradient(parameter);
    return runtime_.allocate(MemoryCategory::grads, layout_.shape(parameter), dtype_);
  }
  void gradient_ready(int parameter) override {
    if (is_first()) inner_.gradient_ready(parameter);
  }
  void after_weight_gradients(int module) override {
    if (is_first()) inner_.after_weight_gradients(module);
  }

 private:
  [[nodiscard]] bool is_first() const { return num_microbatches_ == 1; }

  Runtime& runtime_;
  const FlatLayout& layout_;
  DType dtype_;
  int num_microbatches_ = 0;  // Those of this step whose backward has begun.
};

}  // namespace

Result run_reducing_first_microbatch(const Scenario& scenario) {
  return run_with_sync(scenario, [](const SyncOfRank& of) {
    return std::make_unique<FirstMicrobatchSync>(of.inner, of.runtime, of.plan.layout(0),
                                                 of.plan.options().sync.gradient_dtype);
  });
}

}  // namespace shardsim::test
