#pragma once

#include <array>
#include <cstdint>

#include "strategies/model/norm.hpp"

// RMS norms of queries and keys that norm.hpp does not have: without a weight, and over a width of
// which every tensor-parallel rank has a part.
namespace shardsim {

class Communicator;

/// y = x / sqrt(mean of x^2 + epsilon), over equal parts of the last dimension of `width` elements
/// each. In place: x becomes y. Returns the reciprocal roots [rows], which backward needs beside y.
/// Source: transformers' Llama4TextL2Norm.
[[nodiscard]] Tensor unit_norm_forward(Runtime& runtime, const Tensor& x, std::int64_t width,
                                       double epsilon);
/// In place: dy becomes dx.
void unit_norm_backward(Runtime& runtime, const Tensor& y, const Tensor& statistics,
                        const Tensor& dy);

/// A tensor [..., n], of whose rows this rank has n of `whole` elements, and the weight [n] of
/// these. Where neighbouring ranks have copies of elements, `whole` counts each copy: then means
/// are those of the row. In backward each copy has a part of a gradient, and the mean's share in it
/// is a part, too.
struct SplitRows {
  Tensor x;
  Tensor weight;
  std::int64_t whole = 0;
  bool is_zero_centred = false;  ///< See NormForm.
};

struct SplitNormOutput {
  std::array<Tensor, 2> y;
  Tensor statistics;  ///< [rows, 2]: the reciprocal roots of both.
};

/// RMS norm of two tensors with equal numbers of rows, over whole rows. The ranks of `group` add up
/// their sums of squares: one all_reduce of two numbers per row. Source: OLMo Team, "2 OLMo 2
/// Furious" (2024), where one device has whole rows.
[[nodiscard]] SplitNormOutput split_norm_forward(Runtime& runtime, Communicator& group,
                                                 const std::array<SplitRows, 2>& rows,
                                                 double epsilon);
/// Returns the gradients of both x. Adds to those of the weights, each of its weight's size. One
/// all_reduce of two numbers per row.
[[nodiscard]] std::array<Tensor, 2> split_norm_backward(
    Runtime& runtime, Communicator& group, const std::array<SplitRows, 2>& rows,
    const std::array<Tensor, 2>& dy, const Tensor& statistics,
    const std::array<Tensor, 2>& weight_gradients);

}  // namespace shardsim
