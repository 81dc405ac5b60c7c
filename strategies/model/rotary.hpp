#pragma once

#include "strategies/model/layer.hpp"
#include "strategies/model/sequence_part.hpp"

// Rotary position embedding. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary
// Position Embedding" (2021): neighbouring elements (2i, 2i + 1) of a head at position p turn by
// the angle p * theta^(-2i / d).
namespace shardsim {

/// Rotates every head of x [b, s, heads d], whose s positions are those of `part`, in place.
/// REQUIRES: `head_size` d even, divides the last dimension.
void rotary_forward(Runtime& runtime, const Tensor& x, std::int64_t head_size, double theta,
                    const SequencePart& part = {});

/// The gradient turns back by the same angle, in place: dy becomes dx.
void rotary_backward(Runtime& runtime, const Tensor& dy, std::int64_t head_size, double theta,
                     const SequencePart& part = {});

}  // namespace shardsim
