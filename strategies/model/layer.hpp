#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/runtime.hpp"
#include "backends/stochastic_rounding.hpp"

// Common rules of all layers. A layer is a pair of free functions, forward beside backward, on
// tensors whose shapes stand in the comments.
//
// Rules of all layers:
// - Every function charges operations and allocates in the same way with and without data.
// - Inputs are read into doubles, and every stored element is rounded once to its tensor's dtype.
// - Gradients of weights are ADDED to the tensor given; gradients of inputs are returned or, where
//   a function says "in place", replace what they are computed from.
// - Matrix products count 2 m n k operations. All else is limited by memory: its flops are 0, as
//   in the usual count of model flops, and its bytes are those read and written once.
namespace shardsim {

/// Dtype of statistics kept from forward to backward (means, log-sum-exps): they are few, and
/// keeping them in 16 bits would cost more accuracy than it saves memory.
[[nodiscard]] constexpr DType statistics_dtype(DType dtype) {
  return dtype == DType::fp64 ? DType::fp64 : DType::fp32;
}

/// Throws LimitError if it does not fit in 64 bits.
[[nodiscard]] std::int64_t checked_product(std::initializer_list<std::int64_t> factors);

/// (m, k) (k, n): 2 m n k flops.
[[nodiscard]] ComputeOp matmul_op(const char* name, DType dtype, std::int64_t m, std::int64_t n,
                                  std::int64_t k, std::int64_t bytes,
                                  KernelFamily family = KernelFamily::matrix_product);
[[nodiscard]] ComputeOp memory_op(const char* name, DType dtype, std::int64_t bytes,
                                  KernelFamily family = KernelFamily::other);

/// A size or place in a tensor, as the index of a list.
[[nodiscard]] constexpr std::size_t to_size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Zeros.
[[nodiscard]] inline Tensor new_activation(Runtime& runtime, const Shape& shape, DType dtype) {
  return runtime.allocate(MemoryCategory::activations, shape, dtype);
}

/// Size of the last, contiguous dimension, and how many such rows there are.
[[nodiscard]] std::int64_t last_dim(const Tensor& tensor);
[[nodiscard]] std::int64_t num_rows(const Tensor& tensor);
/// `shape` with its last dimension replaced.
[[nodiscard]] Shape with_last(const Shape& shape, std::int64_t last);

/// Throws UsageError "layer: what is actual, expected expected" unless they are equal.
void require_size(const char* layer, const char* what, std::int64_t actual, std::int64_t expected);

/// All elements as doubles. REQUIRES: has_data().
[[nodiscard]] std::vector<double> values_of(const Tensor& tensor);
/// tensor += values, rounded once per element. REQUIRES: has_data(), equal lengths.
void add_values(const Tensor& tensor, std::span<const double> values);

/// y += x, in place: the join of a residual connection, and of its gradients. Equal shapes.
void add_in_place(Runtime& runtime, const Tensor& x, const Tensor& y);

/// factor x: in place, or as a new tensor.
void scale_in_place(Runtime& runtime, const Tensor& x, double factor);
[[nodiscard]] Tensor scaled(Runtime& runtime, const Tensor& x, double factor);

/// Marks `y` as a sum whose terms ranks share where there are several. They round more often than
/// one device, which counts only while errors are drawn: then each element gets the errors of the
/// roundings that are more (StochasticRounding::round_more). Does nothing at any other time.
void round_shared_sum(Runtime& runtime, const Tensor& y, SumOver sum);

}  // namespace shardsim
