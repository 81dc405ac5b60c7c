#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "strategies/model/branch.hpp"
#include "strategies/model/dense_mlp.hpp"
#include "strategies/model/expert_layer.hpp"
#include "strategies/model/make_model.hpp"

// The feed-forward of a block with experts. The router comes first, then the projections of latents
// and the shared experts, which are one gated MLP, if there are any, and their gate; the routed
// experts, a unit of their own, come last.
namespace shardsim {

class ExpertFeedForward final : public Branch {
 public:
  explicit ExpertFeedForward(const ModelOptions& options);

  /// Its router alone may be within a graph: nobody knows ahead how many tokens experts get.
  [[nodiscard]] GraphModule graph_module() const override { return GraphModule::none; }
  [[nodiscard]] const char* dropout_stream() const override { return "mlp"; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] std::size_t num_kept() const override {
    return std::size_t{num_own_kept} + shared_.num_kept();
  }
  [[nodiscard]] Tensor forward(const Pass& pass, BranchInput& x,
                               std::span<Tensor> kept) const override;
  [[nodiscard]] Tensor backward(const Pass& pass, Tensor dy, BranchInput& x,
                                std::span<Tensor> kept) const override;
  /// How many tokens went where; where forward runs again, backward counts itself.
  [[nodiscard]] bool keeps_state() const override { return !recomputes_all_ && !runs_again_; }
  /// The router does.
  [[nodiscard]] bool reads_input() const override { return true; }

  [[nodiscard]] OffloadModule reader_of(std::size_t kept) const override;

 private:
  // Tensors kept behind those of the shared experts and of ExpertLayer.
  enum Kept : std::size_t {
    shared_output = ExpertLayer::num_kept,  // With a gate: before it.
    shared_logits,
    num_own_kept,
  };

  [[nodiscard]] Tensor run_forward(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const;
  // Shared experts, and their gate.
  [[nodiscard]] Tensor forward_shared(const Pass& pass, BranchInput& x,
                                      std::span<Tensor> kept) const;
  void drop_shared(std::span<Tensor> kept) const;
  // In place of dy stands the gradient of the shared experts' output. Adds to d, the gradient of x.
  [[nodiscard]] Tensor backward_gate(const Pass& pass, Tensor& dy, const Tensor& x, Tensor d,
                                     std::span<Tensor> kept) const;
  [[nodiscard]] std::span<Tensor> own(std::span<Tensor> kept) const {
    return kept.subspan(shared_.num_kept());
  }
  [[nodiscard]] std::span<Tensor> of_layer(std::span<Tensor> kept) const {
    return own(kept).first(ExpertLayer::num_kept);
  }
  [[nodiscard]] int first_shared() const { return experts_.outer_size(); }
  [[nodiscard]] int shared_gate() const { return first_shared() + shared_.num_parameters(); }

  ExpertLayer experts_;
  DenseMlp shared_;
  std::int64_t hidden_size_;
  bool has_shared_;
  bool has_gate_;
  bool captures_router_;  // In a CUDA graph, with the norm ahead of it.
  bool recomputes_all_;   // The whole block,
  bool runs_again_;       // or this branch: see RecomputeModule,
  bool shared_runs_again_;
  ExpertLayer::Places places_;
};

}  // namespace shardsim
