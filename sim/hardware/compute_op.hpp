#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/kernel/dtype.hpp"

// The work of one operation, independent of the device.
namespace shardsim {

/// The unit that does the work. Matrix products run on tensor cores; the rest moves bytes, within
/// the device's memory or between it and the host's.
enum class ComputeKind : std::uint8_t { matmul, memory_bound, host_transfer };

/// The family of kernels that do the work. `other`: only flops and bytes are known.
enum class KernelFamily : std::uint8_t {
  other,
  matrix_product,
  weight_gradient,     ///< A matrix product that is added to what is there.
  attention_forward,   ///< As a fused kernel does it: the scores are never stored,
  attention_backward,  ///< and computed again here.
  permutation,         ///< Rows gathered from, or scattered to, places that an index names.
  cross_entropy,       ///< Reductions over the rows of logits.
  cross_entropy_backward,
  bias,  ///< Added to a product that another kernel wrote.
  bias_gradient,
  norm,
  norm_backward,
  activation,  ///< GELU, SwiGLU and their like.
  activation_backward,
  rotary,
  rotary_backward,
  dropout,
  dropout_backward,
  residual,  ///< A sum of two branches, or of their gradients.
  optimizer_step,
  amax,          ///< The largest absolute value of a tensor, for its scale;
  amax_of_norm,  ///< of a norm's output, which its kernel may find as it writes.
  quantize,      ///< Rounded to 8 or 4 bits, with scales.
  delta_rule,    ///< Chunks of a gated delta rule, and what lies between them.
  delta_rule_backward,
};
inline constexpr std::size_t kKernelFamilies = 25;

/// Sizes that decide how well kernels fill a device. Zeros for families that have none.
/// matrix_product, weight_gradient: `batch` products (m, k) (k, n).
/// attention: `batch` heads, of all samples; m queries and n keys of size k. The operation's flops
/// tell the pairs that a mask leaves.
struct KernelShape {
  KernelFamily family = KernelFamily::other;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  /// Operands have a scale for each block of elements, which no tensor core applies.
  bool has_block_scales = false;

  friend bool operator==(const KernelShape&, const KernelShape&) = default;
};

/// The host's part in an operation: it launches each kernel, or a CUDA graph that begins with this
/// operation, or nothing, since the operation is within a graph.
enum class HostLaunch : std::uint8_t { each_kernel, graph, within_graph };

/// One kernel. `name` must outlive the run (a literal): it labels the slice in a trace.
struct ComputeOp {
  const char* name;
  ComputeKind kind;
  DType dtype;         ///< Type of the operands; decides the peak rate.
  std::int64_t flops;  ///< Multiply and add count as two.
  std::int64_t bytes;  ///< Read and written in device memory; or moved over the host link.
  KernelShape shape = {};
  HostLaunch launch = HostLaunch::each_kernel;
};

}  // namespace shardsim
