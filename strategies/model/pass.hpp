#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "strategies/model/activation.hpp"
#include "strategies/model/attention.hpp"
#include "strategies/model/attention_sinks.hpp"
#include "strategies/model/linear.hpp"
#include "strategies/model/linear_operands.hpp"
#include "strategies/model/model.hpp"
#include "strategies/model/norm.hpp"
#include "strategies/model/parameter.hpp"
#include "strategies/model/region_input.hpp"
#include "strategies/model/weight_gradient.hpp"

// Layers applied to parameters of a table: they fetch each weight when it is needed, and report
// each gradient as soon as nothing more is added to it, before the gradient of the input is
// computed. Gathering and reducing hide behind the arithmetic because of this order.
namespace shardsim {

class PendingTensor;  // strategies/sharding/tensor_parallel.hpp
/// One module on its way forward or backward. Its parameters count from `first`.
struct Pass : ModelContext {
  int first;
  std::int64_t seq_len = 1;  ///< Positions per sample here: a shard of tokens does not show it.
  int block = -1;            ///< Number of the block that is passed, or -1.
  Dropout dropout = {};
  SequencePart part = {};        ///< Which of each sample's positions they are.
  const Batch* batch = nullptr;  ///< The microbatch itself; null in tests of layers.
  /// Its linear layers' products; null: they are as all else.
  const LowPrecision* low = nullptr;

  [[nodiscard]] Tensor weight(int k) const { return weight_of(first + k); }
  [[nodiscard]] Tensor gradient(int k) const { return gradient_of(first + k); }
  void ready(int k) const { report_gradient(first + k); }
};

/// A linear layer with weight k, and with bias k + 1 behind it or without bias. x is quantized (its
/// rows) or not.
[[nodiscard]] Tensor apply_linear(const Pass& pass, int k, const Tensor& x);
[[nodiscard]] Tensor apply_linear_with_bias(const Pass& pass, int k, const Tensor& x);

/// The gradient of such a layer's input; given a dx, it adds to that.
[[nodiscard]] Tensor backward_input(const Pass& pass, int k, const Tensor& dy, Tensor dx = {});

/// Adds and reports the gradient of weight k; x is what linear_input() left. `is_last`: nothing
/// more is added to it.
void finish_linear(const Pass& pass, int k, const LinearGradient& dy, const Tensor& x,
                   bool is_last = true);
/// The same of a layer that is never quantized.
inline void finish_linear(const Pass& pass, int k, const Tensor& dy, const Tensor& x) {
  add_weight_gradient(pass, {.parameter = pass.first + k, .dy = dy, .x = x});
}
inline void finish_bias(const Pass& pass, int k, const Tensor& dy) {
  add_weight_gradient(pass,
                      {.kind = WeightGradient::Kind::bias, .parameter = pass.first + k, .dy = dy});
}

/// A norm with weight k, and bias k + 1 if it has one.
[[nodiscard]] inline NormOutput apply_norm(const Pass& pass, int k, const NormForm& form,
                                           const Tensor& x, double epsilon) {
  const Tensor weight = pass.weight(k);
  const Tensor bias = form.has_bias ? pass.weight(k + 1) : Tensor();
  return norm_forward(pass.runtime, x, weight, bias, epsilon, form);
}
/// Returns dx, adds and reports its gradients.
[[nodiscard]] Tensor finish_norm(const Pass& pass, int k, const NormForm& form, const Tensor& dy,
                                 const Tensor& x, const Tensor& statistics);

/// For layers that add to a parameter's gradient while they compute the gradient of their input:
/// what they add to, the gradient of parameter k of `weight`'s shape, or a sum for later.
[[nodiscard]] Tensor gradient_of_sum(const Pass& pass, int k, const Tensor& weight);
/// Reports it. `sum` is what gradient_of_sum returned; if nothing is left for later, it is dropped
/// first, since a reported gradient's memory may be about to be freed.
void finish_sum(const Pass& pass, int k, Tensor sum);

// Linear layers in column-parallel and row-parallel pairs. On one device they are plain linear
// layers; with a TensorParallel context they enter and leave its regions. Backward posts the sum of
// the input's gradient first: it travels while those of the weights are computed.
// `layer` names a layer in errors; it must outlive the run.

/// Input of the column-parallel layers that read x: x [b, s, h] itself, or gathered from shards
/// [b s / t, h]. Drop it after use.
[[nodiscard]] Tensor enter_region(const Pass& pass, const Tensor& x, const char* layer,
                                  RegionInput input = RegionInput::enters);
/// The same for layers whose first reader is apply_linear(): tokens may arrive as it reads.
[[nodiscard]] Tensor enter_region_by_shard(const Pass& pass, const Tensor& x, const char* layer);
/// Posts the sum of the gradient of an input that joined the region and that no linear layer reads.
[[nodiscard]] PendingTensor sum_joined_gradient(const Pass& pass, Tensor dx, const char* layer);

/// A linear layer among those that read the region's input: weight k, its bias k + 1 or none.
struct ColumnLinear {
  int k = 0;
  bool has_bias = false;
  bool is_last = true;       ///< False: more is added to the weight's gradient elsewhere (tied).
  Tensor dy;                 ///< Gradient of its output.
  LinearGradient made = {};  ///< backward_columns() makes it of dy.
};
/// The layers that read one input, in the order of their parameters. In place: backward makes such
/// a list for every branch and microbatch.
class ColumnLinears {
 public:
  /// REQUIRES: there is room. A region that attention and an MLP share has six.
  void add(ColumnLinear layer) { layers_.at(count_++) = std::move(layer); }
  /// `first` come before those that are there.
  void add_before(ColumnLinears first) {
    for (ColumnLinear& each : all()) first.add(std::move(each));
    *this = std::move(first);
  }
  [[nodiscard]] std::span<ColumnLinear> all() { return std::span(layers_).first(count_); }

 private:
  std::array<ColumnLinear, 8> layers_;
  std::size_t count_ = 0;
};

/// Adds and reports the gradients of the layers that read x, the last one's first, and returns the
/// gradient of x: the sum over `layers`, which stand in the order of their parameters. Drops x and
/// every dy once used. `wants_input_gradient` false: returns an undefined tensor (x is data).
[[nodiscard]] Tensor backward_columns(const Pass& pass, std::span<ColumnLinear> layers, Tensor x,
                                      const char* layer, bool wants_input_gradient = true,
                                      RegionInput input = RegionInput::enters);

/// A row-parallel layer with weight k, and its bias k + 1 or none: x is cut, y is not. The bias is
/// added once, to the sum.
[[nodiscard]] Tensor apply_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& x,
                                      const char* layer);
/// Adds and reports its gradients, drops x, and returns the gradient of x, cut like x.
[[nodiscard]] Tensor backward_row_linear(const Pass& pass, int k, bool has_bias, const Tensor& dy,
                                         Tensor x, const char* layer);

/// Partial sums y [b, s, h] -> their sum over ranks, or this rank's tokens of it.
[[nodiscard]] Tensor leave_region(const Pass& pass, Tensor y, const char* layer);
/// From the sum's gradient to that of the partial sums, with all tokens. dy may be quantized.
[[nodiscard]] Tensor leave_region_backward(const Pass& pass, const Tensor& dy, const char* layer);
/// The same for both products of a row-parallel layer. Ranks that have some of the tokens quantize
/// these, and send them so.
[[nodiscard]] LinearGradient gather_gradient(const Pass& pass, int k, const Tensor& dy,
                                             const char* layer);
/// Backward of a row-parallel layer without its bias, from the gradient of its partial sum: adds
/// and reports its gradient, drops x, and returns the gradient of x.
[[nodiscard]] Tensor backward_row(const Pass& pass, int k, const LinearGradient& all_dy, Tensor x);

/// Dropout at the end of a branch, outside of regions: y in place, or the gradient of its input.
void apply_dropout(const Pass& pass, const char* branch, const Tensor& y);
[[nodiscard]] Tensor backward_dropout(const Pass& pass, const char* branch, const Tensor& dy);

// The attention of a block, with keys all on this rank, or spread over a context-parallel group.

/// `shape`: of this rank's heads, of whole samples. q, k and v have the positions of pass.part. If
/// the result has exchanged_qkv, backward does not read them. `sinks`: their number, or -1.
[[nodiscard]] Attended attend(const Pass& pass, const AttentionShape& shape, const QkvHeads& qkv,
                              int sinks = -1);

/// Writes the gradients, from dy [b, s, a d_v] of this rank's tokens; adds and reports that of the
/// sinks.
void backward_attend(const Pass& pass, const AttentionShape& shape, const QkvHeads& qkv,
                     const Attended& forward, const Tensor& dy, const QkvHeads& gradients,
                     int sinks = -1);

}  // namespace shardsim
