#pragma once

#include "strategies/model/attention_mask.hpp"

// Options of one block, in a stack whose blocks differ.
namespace shardsim {

struct LayerOptions {
  AttentionMask mask = {};
  bool has_rotary = true;   ///< Rotary positions turn queries and keys; llama.
  double rope_theta = 0.0;  ///< Their base; 0: the model's.
  bool has_sinks = false;   ///< Attention sinks; llama.

  friend bool operator==(const LayerOptions&, const LayerOptions&) = default;
};

}  // namespace shardsim
