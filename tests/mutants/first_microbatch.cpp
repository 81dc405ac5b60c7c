#include "tests/mutants/first_microbatch.hpp"

#include <memory>

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

#include "sim/app/metrics.hpp"
#include "sim/app/plan_of.hpp"
#include "sim/app/run_record.hpp"

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
  int num_microbatches_ = 0;  // Of this step, whose backward has begun.
};

void run_rank(const ParallelPlan& plan, RunRecord& record, Runtime& runtime, Communicator& world) {
  const ParallelOptions& options = plan.options();
  Mesh mesh(world, options.mesh);
  RunRecord::Observer observer(record, {.rank = world.rank(),
                                        .shard = options.zero_stage > 0 ? mesh.dp_shard() : 0,
                                        .is_last_stage = true,
                                        .part = plan.part(mesh.place())});
  const std::unique_ptr<GradientSync> sync = plan.make_sync(runtime, mesh);
  FirstMicrobatchSync bent(*sync, runtime, plan.layout(0), options.sync.gradient_dtype);
  plan.train_rank(runtime, mesh, bent, observer);
}

}  // namespace

Result run_reducing_first_microbatch(const Scenario& scenario) {
  const SharedPlan shared(scenario);
  const ParallelPlan& plan = shared.parallel;
  Oracle oracle(plan.options().sync, plan.options().training, scenario.training.global_batch_size,
                nullptr);
  FiberWorld world(fiber_options_of(scenario));
  RunRecord record(world, scenario.execution.steps, &oracle);
  Result result;
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      run_rank(plan, record, runtime, everyone);
    });
  } catch (const CommunicationError& error) {
    result.diagnosis = error.diagnosis();
    result.exit_code = static_cast<int>(ExitCode::communication);
    return result;
  }
  oracle.finish();
  result.metrics.push_back({"oracle.passed", oracle.passed()});
  result.checks.push_back(oracle_check(oracle));
  result.exit_code = static_cast<int>(oracle.passed() ? ExitCode::ok : ExitCode::check_failed);
  return result;
}

}  // namespace shardsim::test
