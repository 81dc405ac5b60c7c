#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/runtime.hpp"

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/model/weight_gradient.hpp"

#include "sim/verify/muon_reference.hpp"

// One device for references: whole tensors, no communication.
namespace shardsim {

/// All values of one kind ("gradient", "parameter", "exp_avg", ...), by parameter.
using ReferenceTensors = std::vector<std::vector<double>>;

/// The same for every existing kind.
using ReferenceKinds = std::map<std::string, ReferenceTensors, std::less<>>;

struct ReferenceStep {
  double loss = 0.0;            ///< Mean over the valid targets.
  bool overflowed = false;      ///< A gradient is infinite or NaN.
  double largest = 0.0;         ///< |x| of the gradients.
  double largest_part = 0.0;    ///< Only Batches::in_parts: the largest sum of |x| over samples.
  bool skipped = false;         ///< No update: an overflow.
  std::size_t num_adopted = 0;  ///< Close calls decided as the ranks did.
  double next_scale = 1.0;      ///< Loss scale of the next step.
  /// Only Batches::in_parts: for each element of a gradient, the most that rounding may change when
  /// microbatches and ranks add it up. In unit roundoffs of its dtype (SumErrors).
  ReferenceTensors sum_errors;
  ReferenceTensors sum_variances;  ///< And the variance of that change.
  /// "gradient" is from before the optimizer, clipping and unscaling; the rest is from after it.
  ReferenceKinds kinds;
};

/// sum += values, element by element; an empty sum has zeros.
void add_to(ReferenceTensors& sum, const ReferenceTensors& values);
/// Whether products of the model read quantized tensors.
[[nodiscard]] bool quantizes(const Model& model);
/// Zeros in their places.
[[nodiscard]] ReferenceTensors zeros_like(ReferenceTensors tensors);

/// One device, like LocalRuntime, that reports each operation, so that a long step shows progress.
class TellingRuntime final : public Runtime {
 public:
  explicit TellingRuntime(std::function<void()> on_progress)
      : on_progress_(std::move(on_progress)) {}
  [[nodiscard]] bool has_data() const override { return true; }
  [[nodiscard]] MemoryLedger* ledger() override { return nullptr; }

 protected:
  void charge(const ComputeOp&) override {
    if (on_progress_) on_progress_();
  }

 private:
  std::function<void()> on_progress_;
};

/// Weights, masters, gradients and optimizer state of one copy of the model, at the dtypes of
/// `plan`.
class WholeParameters final : public Parameters {
 public:
  /// All must outlive it.
  WholeParameters(Runtime& runtime, const SyncPlan& plan);

  Tensor weight(int index) override { return weights_[static_cast<std::size_t>(index)]; }
  Tensor gradient(int index) override { return gradients_[static_cast<std::size_t>(index)]; }
  void gradient_ready(int) override {}

  void zero_gradients();
  [[nodiscard]] double norm(NormType type) const;
  [[nodiscard]] ReferenceTensors gradients() const;
  [[nodiscard]] ReferenceTensors masters() const;
  void set_gradients(const ReferenceTensors& all);
  /// Replaces infinite values with the largest finite ones.
  void saturate_gradients();
  void optimize(double scale, std::int64_t step);
  void set_weights(const ReferenceTensors& all);
  /// Sets the weights, too, rounded.
  void set_masters(const ReferenceTensors& all);
  void set_state(const ReferenceKinds& kinds);
  void record_state(ReferenceStep& step) const;

 private:
  // The names of a parameter's states.
  [[nodiscard]] std::vector<std::string_view> state_names(std::size_t parameter) const;

  Runtime& runtime_;
  const SyncPlan& plan_;
  MuonReference muon_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> masters_;
  std::vector<Tensor> gradients_;
  std::vector<std::vector<Tensor>> states_;  // As state_names() of each.
};

/// The weights of a copy, but other gradients: they are added up in fp64, so that sums lose
/// nothing.
class ExactSums final : public Parameters {
 public:
  /// All must outlive it.
  ExactSums(Runtime& runtime, const Model& model, WholeParameters& of);

  Tensor weight(int index) override { return of_.weight(index); }
  Tensor gradient(int index) override { return gradients_[static_cast<std::size_t>(index)]; }
  void gradient_ready(int) override {}

  void zero_gradients();
  [[nodiscard]] ReferenceTensors gradients() const;

 private:
  WholeParameters& of_;
  std::vector<Tensor> gradients_;
};

/// Called with each addition to a gradient before it is made. May be empty.
using SeenWork = std::function<void(const WeightGradient& work)>;

/// Sums of the losses of `batch`; adds its gradients to those in `parameters`. `state`: what a
/// training has beside weights (biases of routers, scales), where the model has it; no group of
/// ranks. The loop is apart from strategies/model/model.cpp on purpose: the oracle cannot find
/// errors in code that it shares with the training.
[[nodiscard]] std::vector<double> forward_backward(const Model& model, Runtime& runtime,
                                                   Parameters& parameters, const Batch& batch,
                                                   const ModelParallel& state = {},
                                                   const SeenWork& seen = {});

}  // namespace shardsim
