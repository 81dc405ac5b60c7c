#pragma once

#include <cstdint>

#include "strategies/model/attention_mask.hpp"

// Options of one block, in a stack whose blocks differ.
namespace shardsim {

/// The branch of a block that exchanges something between positions. none: it has no such branch.
/// attention_mamba: both read one norm and join the stream together.
enum class Mixer : std::uint8_t { attention, delta_net, mamba, none, attention_mamba };

/// Whether a mixer is `one`, or has it beside another.
[[nodiscard]] constexpr bool has_mixer(Mixer mixer, Mixer one) {
  const bool has_both = mixer == Mixer::attention_mamba;
  return mixer == one || (has_both && (one == Mixer::attention || one == Mixer::mamba));
}

/// The feed-forward of a block. automatic: experts in a model that has them, but for its
/// first_dense_layers blocks. none: the mixer is all of it.
enum class FeedForward : std::uint8_t { automatic, dense, experts, none };

/// Heads of attention: a block's own, where they are not those of the model.
struct HeadOptions {
  std::int64_t num_attention_heads = 0;  ///< 0, here and below: as the model has them.
  std::int64_t num_query_groups = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_head_dim = 0;  ///< 0 beside a head_dim of its own: that.
  std::int64_t rotary_dim = 0;      ///< The same.
  /// Values are the keys before their norm and rotary positions; both gradients add.
  bool keys_are_values = false;

  /// All of them, with those of the model (none of them 0) where these say nothing.
  [[nodiscard]] HeadOptions beside(const HeadOptions& model) const {
    const auto own_or = [](std::int64_t own, std::int64_t other) { return own > 0 ? own : other; };
    HeadOptions all = *this;
    all.num_attention_heads = own_or(num_attention_heads, model.num_attention_heads);
    all.num_query_groups = own_or(num_query_groups, model.num_query_groups);
    all.head_dim = own_or(head_dim, model.head_dim);
    const bool is_wide_as_keys = head_dim > 0 || keys_are_values;
    all.value_head_dim =
        own_or(value_head_dim, is_wide_as_keys ? all.head_dim : model.value_head_dim);
    all.rotary_dim = own_or(rotary_dim, head_dim > 0 ? all.head_dim : model.rotary_dim);
    return all;
  }
  friend bool operator==(const HeadOptions&, const HeadOptions&) = default;
};

/// How many of `tp` tensor-parallel ranks have a copy of the same key and value head. REQUIRES:
/// both numbers are positive.
[[nodiscard]] constexpr std::int64_t copies_of_groups(std::int64_t groups, std::int64_t tp) {
  return groups < tp ? tp / groups : 1;
}

/// Whether as many of these heads, or copies of them, come to each of `tp` ranks. The llama family
/// has copies. REQUIRES: the same.
[[nodiscard]] constexpr bool divides_groups(std::int64_t groups, std::int64_t tp, bool has_copies) {
  return groups % tp == 0 || (has_copies && groups < tp && tp % groups == 0);
}

struct LayerOptions {
  Mixer mixer = Mixer::attention;  ///< Others: llama. The rest is attention's.
  AttentionMask mask = {};
  bool has_rotary = true;   ///< Rotary positions turn queries and keys; llama.
  double rope_theta = 0.0;  ///< Their base; 0: the model's.
  bool has_sinks = false;   ///< Attention sinks; llama.
  FeedForward feed_forward = FeedForward::automatic;
  HeadOptions heads = {};  ///< Others than the model's: llama, without latents.

  friend bool operator==(const LayerOptions&, const LayerOptions&) = default;
};

}  // namespace shardsim
