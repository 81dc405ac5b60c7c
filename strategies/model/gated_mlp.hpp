#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"
#include "strategies/model/make_model.hpp"

// down(silu(gate(x)) * up(x)) without biases: the feed-forward of a llama's block, and its shared
// experts. Source: Shazeer, "GLU Variants Improve Transformer" (2020).
namespace shardsim {

class GatedMlp final : public RegionBranch {
 public:
  /// Parameters of a block.
  enum Places : int { w_gate, w_up, w_down, num_parameters };

  /// `name`: of the parameters, behind the block's. `ffn_hidden_size`: f, of all ranks together.
  GatedMlp(const ModelOptions& options, std::string name, std::int64_t ffn_hidden_size)
      : name_(std::move(name)),
        hidden_size_(options.hidden_size),
        ffn_hidden_size_(ffn_hidden_size),
        tensor_parallel_(options.tensor_parallel),
        recomputes_some_(options.recompute == Recompute::selective) {}

  [[nodiscard]] const char* dropout_stream() const override { return "mlp"; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] std::size_t num_kept() const override { return num_saved; }
  [[nodiscard]] const char* columns() const override { return "mlp.gate, up"; }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override { return {w_down, false, "mlp.down"}; }
  [[nodiscard]] Tensor forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                      std::span<Tensor> kept) const override;
  void drop_row_input(std::span<Tensor> kept) const override;
  [[nodiscard]] Tensor row_input(const Pass& pass, std::span<Tensor> kept) const override;
  [[nodiscard]] std::vector<ColumnLinear> backward_inside(const Pass& pass, Tensor d,
                                                          std::span<Tensor> kept) const override;

 private:
  enum Kept : std::size_t { gate, up, activated, num_saved };

  std::string name_;
  std::int64_t hidden_size_;
  std::int64_t ffn_hidden_size_;
  int tensor_parallel_;
  bool recomputes_some_;
};

}  // namespace shardsim
