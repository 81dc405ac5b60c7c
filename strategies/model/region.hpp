#pragma once

#include <span>

#include "strategies/model/pass.hpp"

// Linear layers in column-parallel and row-parallel pairs. On one device they are plain linear
// layers; with a TensorParallel context they enter and leave its regions. Backward computes the
// gradient of a region's input first and posts its sum, which then travels while the gradients of
// the weights are computed.
// `layer` names a layer in errors; it must outlive the run.
namespace shardsim {

/// Input of the column-parallel layers that read x: x [b, s, h] itself, or gathered from shards
/// [b s / t, h]. Drop it after use.
[[nodiscard]] Tensor enter_region(const Pass& pass, const Tensor& x, const char* layer);

/// A linear layer among those that read the region's input: weight k, its bias k + 1 or none.
struct ColumnLinear {
  int k = 0;
  bool has_bias = false;
  bool is_last = true;  ///< False: more is added to the weight's gradient elsewhere (tied).
  Tensor dy;            ///< Gradient of its output.
};
/// Adds and reports the gradients of the layers that read x, the last one's first, and returns the
/// gradient of x: the sum over `layers`, which stand in the order of their parameters. Drops x and
/// every dy once used.
/// `wants_input_gradient` false: returns an undefined tensor (x is data).
[[nodiscard]] Tensor backward_columns(const Pass& pass, std::span<ColumnLinear> layers, Tensor x,
                                      const char* layer, bool wants_input_gradient = true);

/// A row-parallel layer with weight k, and its bias k + 1 or none: x is cut, y is not. The bias is
/// added once, to the sum.
[[nodiscard]] Tensor apply_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& x,
                                      const char* layer);
/// Adds and reports its gradients, drops x, and returns the gradient of x, cut like x.
[[nodiscard]] Tensor backward_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& dy,
                                         Tensor x, const char* layer);

/// Dropout at the end of a branch, outside of regions: y in place, or the gradient of its input.
void apply_dropout(const Pass& pass, const char* branch, const Tensor& y);
[[nodiscard]] Tensor backward_dropout(const Pass& pass, const char* branch, const Tensor& dy);

}  // namespace shardsim
