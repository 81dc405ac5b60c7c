#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/make_model.hpp"

// s_d down(silu(s_g gate(x)) * up(x)) with factors s_d and s_g, or another activation of
// ActivationForm, without a gate down(activation(up(x))): the feed-forward of a llama's block, and
// its shared experts. Source: Shazeer, "GLU Variants Improve Transformer" (2020).
namespace shardsim {

class DenseMlp final : public RegionBranch {
 public:
  struct Options {
    std::string name;                  ///< Parameters have it behind the block's.
    std::int64_t ffn_hidden_size = 0;  ///< f, of all ranks together.
    bool has_bias = false;
    double gate_scale = 1.0;  ///< Ahead of the activation; without a gate it does nothing.
    double output_scale = 1.0;
    bool drops_activation = false;  ///< See RecomputeModule: the activation function's output,
    bool runs_again = false;        ///< or all but the input.
  };
  DenseMlp(const ModelOptions& options, Options own);

  /// Parameters in a block.
  [[nodiscard]] int num_parameters() const { return num_parameters_; }
  [[nodiscard]] GraphModule graph_module() const override { return GraphModule::mlp; }
  [[nodiscard]] const char* dropout_stream() const override { return "mlp"; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] std::size_t num_inner() const override { return num_saved; }
  [[nodiscard]] const char* columns() const override {
    return activation_.is_gated() ? "mlp.gate, up" : "mlp.up";
  }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override {
    return {w_down_, own_.has_bias, "mlp.down", own_.output_scale};
  }
  [[nodiscard]] Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const override;
  [[nodiscard]] bool reads_by_linear() const override { return true; }
  [[nodiscard]] bool runs_again() const override { return own_.runs_again; }
  void drop_row_input(std::span<Tensor> kept, bool is_quantized) const override;
  [[nodiscard]] bool recomputes_row_input() const override { return own_.drops_activation; }
  [[nodiscard]] Tensor row_input(const Pass& pass, std::span<Tensor> kept) const override;
  [[nodiscard]] ColumnLinears backward_inside(const Pass& pass, Tensor d,
                                              std::span<Tensor> kept) const override;

 private:
  enum Kept : std::size_t { gate, up, activated, beside, num_saved };  // beside: FrameworkMemory.
  // Gate and up as they are read, where they stayed narrower.
  void widen(const Pass& pass, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor apply_column(const Pass& pass, int weight, const Tensor& x) const;

  Options own_;
  ActivationForm activation_;
  std::int64_t hidden_size_;
  DType dtype_;
  double beside_bytes_;  // For each element of the activation's output.
  int tensor_parallel_;
  int w_up_;  // Behind the gate, if there is one, which is 0. Biases stand behind their weights.
  int w_down_;
  int num_parameters_;
};

}  // namespace shardsim
