#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/pipeline/timeline.hpp"

// A model that computes nothing and takes exactly as long as it is told: one module per pipeline
// stage, no parameters, one activation per microbatch. An executor's run of a schedule can then be
// compared to the picosecond.
namespace shardsim::test {

/// A device on which one flop takes one picosecond.
inline constexpr double kFlopsPerSecond = 1e12;
/// The bytes that modules hand each other.
inline constexpr std::int64_t kMessageBytes = 8;
/// The bytes that a module keeps of a microbatch. No number of messages adds up to so much, so that
/// bytes in use tell how many of both there are.
inline constexpr std::int64_t kSavedBytes = std::int64_t{1} << 20;

class PricedModel final : public Model {
 public:
  /// In picoseconds, one for each stage.
  explicit PricedModel(std::vector<StageCosts> costs) : costs_(std::move(costs)) {}

  [[nodiscard]] std::span<const ParameterSpec> parameters() const override { return {}; }
  [[nodiscard]] std::span<const ParameterUnit> units() const override { return {}; }
  [[nodiscard]] int num_modules() const override { return static_cast<int>(costs_.size()); }
  [[nodiscard]] ModuleRange layer_modules() const override { return {0, num_modules()}; }
  [[nodiscard]] std::span<const int> units_of(int) const override { return {}; }
  [[nodiscard]] std::span<const int> parameters_of(int) const override { return {}; }
  [[nodiscard]] Shape activation_shape(std::int64_t) const override { return {kMessageBytes / 8}; }
  [[nodiscard]] DType dtype() const override { return DType::fp64; }

  /// Operations are called as cells of a schedule are: "2F0", "2I0", "2W0".
  /// REQUIRES: batch.first_sample is the microbatch's number.
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override;
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override;
  void run_weight_gradients(WeightGradientQueue& queue, const ModelContext& context) const override;

  [[nodiscard]] Batch make_batch(Runtime&, std::uint64_t, std::int64_t first, std::int64_t, double,
                                 const SequencePart&) const override;
  [[nodiscard]] std::int64_t count_targets(std::uint64_t, std::int64_t, std::int64_t count, double,
                                           const SequencePart&, int) const override {
    return count;
  }
  [[nodiscard]] std::int64_t positions_per_sample() const override { return 1; }
  [[nodiscard]] std::int64_t model_flops_per_sample() const override { return 0; }

 private:
  struct Later {
    int module = 0;
    int microbatch = 0;
  };
  void charge(Runtime& runtime, ActionKind kind, const Later& what, std::int64_t picoseconds) const;

  std::vector<StageCosts> costs_;
  // Whose gradients of weights wait in which queue, and the names that traces point to.
  mutable std::map<const WeightGradientQueue*, Later> waiting_;
  mutable std::set<std::string> names_;
};

/// For models without parameters: nothing to keep, to reduce or to update.
class NoParameters final : public GradientSync {
 public:
  [[nodiscard]] Tensor weight(int) override { return {}; }
  [[nodiscard]] Tensor gradient(int) override { return {}; }
  void gradient_ready(int) override {}
  void begin_step() override {}
  void begin_weight_gradients(int, bool) override {}
  void finish_gradients() override {}
  [[nodiscard]] bool found_inf() override { return false; }
  [[nodiscard]] double gradient_norm(NormType) override { return 0.0; }
  void apply_optimizer(double, std::int64_t) override {}
  void visit(StateKind, const StateVisitor&) const override {}
};

}  // namespace shardsim::test
