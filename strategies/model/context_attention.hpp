#pragma once

#include <cstdint>

namespace shardsim {

/// How ranks that share samples attend to each other's keys and values.
enum class ContextAttention : std::uint8_t {
  /// Blocks of keys and values go from rank to rank, round a ring, while queries stay. Source: Liu
  /// et al., "Ring Attention with Blockwise Transformers" (2023).
  ring,
  /// Every rank gathers all keys and values. Source: Llama 3 (Dubey et al. 2024), section 3.3.2.
  all_gather,
  /// Tokens are exchanged for heads: every rank has some heads of all tokens. Source: Jacobs et
  /// al., "DeepSpeed Ulysses" (2023).
  ulysses,
  /// Tokens for heads within groups of neighbours, rings between these. Source: Fang & Zhao, "USP:
  /// A Unified Sequence Parallelism Approach" (2024).
  two_level,
};

/// Ranks among which heads are exchanged, of `c`. `chosen` counts for two_level alone.
[[nodiscard]] constexpr int ulysses_size(ContextAttention form, int c, int chosen) {
  if (form == ContextAttention::ulysses) return c;
  return form == ContextAttention::two_level ? chosen : 1;
}

}  // namespace shardsim
