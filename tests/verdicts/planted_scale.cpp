#include "tests/verdicts/planted_scale.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "strategies/gradient_sync/gradient_sync.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/run/metrics.hpp"
#include "sim/verify/oracle.hpp"

namespace shardsim::test {

namespace {

void scale_values(const Tensor& tensor, double factor) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, factor * tensor.get(i));
}

// Scales gradients in their reduction; weights and the optimizer's state are scaled in the update.
class ScalingSync final : public GradientSyncWrapper {
 public:
  ScalingSync(GradientSync& inner, const PlantedScale& planted)
      : GradientSyncWrapper(inner), planted_(planted) {}

  void finish_gradients() override {
    inner_.finish_gradients();
    if (planted_.kind == "gradient") scale_all(StateKind::gradient, "");
  }
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    inner_.apply_optimizer(gradient_scale, step);
    if (planted_.kind == "parameter") return scale_all(StateKind::parameter, "");
    if (planted_.kind != "master") scale_all(StateKind::optimizer_state, planted_.kind);
  }

 private:
  void scale_all(StateKind kind, std::string_view state) {
    inner_.visit(kind, [&](const StatePiece& piece) {
      const bool is_meant = planted_.parameter < 0 || piece.parameter == planted_.parameter;
      if (piece.state == state && is_meant) scale_values(piece.values, planted_.factor);
    });
  }

  const PlantedScale& planted_;
};

// Scales the weights that the optimizer has updated.
class ScalingOptimizer final : public Optimizer {
 public:
  ScalingOptimizer(const Optimizer& inner, const PlantedScale& planted)
      : inner_(inner), planted_(planted) {}

  [[nodiscard]] std::string_view name() const override { return inner_.name(); }
  [[nodiscard]] const OptimizerOptions& options() const override { return inner_.options(); }
  [[nodiscard]] std::span<const std::string_view> state_names() const override {
    return inner_.state_names();
  }
  void step(Runtime& runtime, const Tensor& parameter, const Tensor& gradient,
            std::span<const Tensor> state, double gradient_scale,
            std::int64_t step) const override {
    inner_.step(runtime, parameter, gradient, state, gradient_scale, step);
    if (planted_.kind == "master") scale_values(parameter, planted_.factor);
  }

 private:
  const Optimizer& inner_;
  const PlantedScale& planted_;
};

// Reports to another observer, with a scaled loss.
class ScalingObserver final : public TrainingObserver {
 public:
  ScalingObserver(TrainingObserver& inner, const PlantedScale& planted)
      : inner_(inner), planted_(planted) {}

  void gradients_ready(std::int64_t step, const GradientSync& sync) override {
    inner_.gradients_ready(step, sync);
  }
  void step_decided(std::int64_t step, bool skipped, double next_scale) override {
    inner_.step_decided(step, skipped, next_scale);
  }
  void norm_ready(std::int64_t step, double norm) override { inner_.norm_ready(step, norm); }
  void step_ends(std::int64_t step, const GradientSync& sync, std::optional<double> loss) override {
    if (loss && planted_.kind == "loss") *loss *= planted_.factor;
    inner_.step_ends(step, sync, loss);
  }

 private:
  TrainingObserver& inner_;
  const PlantedScale& planted_;
};

}  // namespace

ScaleVerdict verdict_on(const Scenario& scenario, const PlantedScale& planted) {
  const Experiment right = compile(scenario);
  const ScalingOptimizer optimizer(right.optimizer(), planted);
  const ParallelPlan wrong(right.options(), optimizer);
  Verification oracle(right);
  FiberWorld world(right.world());
  RunRecord record(world, scenario.execution.steps, oracle.oracles(), true);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    Mesh mesh(everyone, wrong.options().mesh);
    RunRecord::Observer inner(record, holder_of(wrong, mesh.place()));
    ScalingObserver observer(inner, planted);
    const std::unique_ptr<GradientSync> sync = wrong.make_sync(runtime, mesh);
    ScalingSync scaling(*sync, planted);
    wrong.train_rank(runtime, mesh, scaling, observer);
  });
  oracle.finish();
  const std::string detail = oracle.detail();
  const bool unproven = detail.find("nothing is proven") != std::string::npos;
  return {!oracle.passed() && !unproven, detail};
}

// Bisects: the oracle finds errors above a bound and misses smaller ones.
int most_bits_found(const Scenario& scenario, const std::string& kind, int parameter) {
  int found = 0;
  int missed = 61;
  while (missed - found > 1) {
    const int bits = (found + missed) / 2;
    const double factor = 1.0 + std::ldexp(1.0, -bits);
    (verdict_on(scenario, {kind, factor, parameter}).found ? found : missed) = bits;
  }
  return found;
}

}  // namespace shardsim::test
