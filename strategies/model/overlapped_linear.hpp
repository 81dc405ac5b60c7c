#pragma once

#include "strategies/model/pass.hpp"

// Linear layers of tensor-parallel regions that compute shard by shard, while shards of tokens go
// round the ranks (strategies/sharding/token_ring.hpp): the first reader of a region's input, its
// row-parallel layer, and backward the gradient of that layer's input.
namespace shardsim {

/// Whether the ranks do so here.
[[nodiscard]] bool overlaps(const Pass& pass);

/// The first reader of a region's input, which arrives as it reads: apply_linear() for such an x.
[[nodiscard]] Tensor apply_arriving(const Pass& pass, int k, bool has_bias, const Tensor& x);

/// apply_linear() and leave_region(): x [b, s, f / t], or its quantized rows -> this rank's tokens
/// of the sum.
[[nodiscard]] Tensor apply_row_overlapped(const Pass& pass, int k, const Tensor& x,
                                          const char* layer);
/// backward_row() of gather_gradient(): dy [b s / t, h]. With scales of blocks both copies are
/// gathered at once, as without overlap.
[[nodiscard]] Tensor backward_row_overlapped(const Pass& pass, int k, const Tensor& dy, Tensor x,
                                             const char* layer);

}  // namespace shardsim
