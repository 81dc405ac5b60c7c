#pragma once

#include <cstdint>

#include "strategies/model/layer.hpp"
#include "strategies/model/sequence_part.hpp"

// Queries that grow with their position, in layers without rotary positions: over more keys a
// softmax is flatter, and this makes up for it. Sources: Nakanishi, "Scalable-Softmax Is Superior
// for Attention" (2025); transformers' Llama4TextAttention, attn_temperature_tuning.
namespace shardsim {

struct QueryTemperature {
  double scale = 0.0;         ///< 0: queries stay as they are.
  std::int64_t floor = 8192;  ///< Neighbouring positions whose factor is the same; above 0.

  /// Whether queries are changed.
  [[nodiscard]] bool acts() const { return scale > 0.0; }
  /// 1 + scale ln(1 + floor((position + 1) / floor)); `position` is that in the sample, from 0 on.
  [[nodiscard]] double factor(std::int64_t position) const;
};

/// Queries [b, s, a d] of one share of each sample become themselves times their factors, in place.
void query_temperature_forward(Runtime& runtime, const Tensor& q,
                               const QueryTemperature& temperature, const SequencePart& part);
/// In place: dq becomes the gradient of what forward was given.
void query_temperature_backward(Runtime& runtime, const Tensor& dq,
                                const QueryTemperature& temperature, const SequencePart& part);

}  // namespace shardsim
