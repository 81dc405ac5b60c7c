#pragma once

#include <cstdint>

#include "strategies/model/attention_mask.hpp"

// Options of one block, in a stack whose blocks differ.
namespace shardsim {

/// The branch of a block that exchanges something between positions. none: it has no such branch.
enum class Mixer : std::uint8_t { attention, delta_net, mamba, none };

/// The feed-forward of a block. automatic: experts in a model that has them, but for its
/// first_dense_layers blocks. none: the mixer is all of it.
enum class FeedForward : std::uint8_t { automatic, dense, experts, none };

struct LayerOptions {
  Mixer mixer = Mixer::attention;  ///< Others: llama. The rest is attention's.
  AttentionMask mask = {};
  bool has_rotary = true;   ///< Rotary positions turn queries and keys; llama.
  double rope_theta = 0.0;  ///< Their base; 0: the model's.
  bool has_sinks = false;   ///< Attention sinks; llama.
  FeedForward feed_forward = FeedForward::automatic;

  friend bool operator==(const LayerOptions&, const LayerOptions&) = default;
};

}  // namespace shardsim
