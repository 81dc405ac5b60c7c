#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Attention over a context: how ranks that share samples attend to each other's keys and values. A
// new form is a file in strategies/sharding, an enumerator here and a row in context_table.cpp
// there. All other code asks the row.
namespace shardsim {

class Communicator;
class Runtime;
class Tensor;
enum class CollectiveKind : std::uint8_t;  // sim/hardware/collective_rows.hpp
struct AttentionOutput;                    // strategies/model/attention.hpp
struct AttentionShape;
struct QkvHeads;

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

inline constexpr ContextAttention kDefaultContextAttention = ContextAttention::ring;

/// The context-parallel ranks that exchange tokens for heads: none, all, or groups of neighbours
/// whose size is chosen.
enum class HeadGroups : std::uint8_t { none, all, chosen };

/// Ranks that have the same heads meet each other's keys and values by `forward` and `backward`:
/// one rank of each group, or all ranks if none exchange heads.
struct ContextAttentionRow {
  ContextAttention form;
  const char* name;          ///< In scenario files.
  std::string_view meaning;  ///< For help: goes on behind the name, and has no full stop.
  // Names elsewhere; empty: there it has none.
  std::string_view megatron;    ///< A value of Megatron-LM's cp_comm_type.
  std::string_view torchtitan;  ///< A value of context_parallel_rotate_method.
  std::string_view deepspeed;   ///< A class of deepspeed.sequence.layer.
  HeadGroups exchange;
  /// Keys and values go round ranks with the same heads, block by block, and hide behind computing.
  bool passes_keys_around;
  /// Calls on the group of all context-parallel ranks for which NCCL chooses an algorithm.
  std::span<const CollectiveKind> collectives;
  /// A form of one level that computes no more, whose layers a search prices; else the form itself.
  ContextAttention probed_as;
  bool was_measured;  ///< There are published measurements of runs with it.
  /// How ranks with the same heads attend, given their group and the shape on this rank. Null:
  /// there is one such rank.
  AttentionOutput (*forward)(Runtime& runtime, Communicator& group, const AttentionShape& shape,
                             const QkvHeads& qkv);
  /// As attention_backward.
  void (*backward)(Runtime& runtime, Communicator& group, const AttentionShape& shape,
                   const QkvHeads& qkv, const AttentionOutput& forward, const Tensor& dy,
                   const QkvHeads& gradients);

  /// Ranks among which heads are exchanged, of `c`. `chosen` counts if their number is chosen.
  [[nodiscard]] std::int64_t exchanging_ranks(std::int64_t c, std::int64_t chosen) const {
    if (exchange == HeadGroups::all) return c;
    return exchange == HeadGroups::chosen ? chosen : 1;
  }
};

[[nodiscard]] const ContextAttentionRow& context_attention_row(ContextAttention form);
/// All rows, in the order of the enumerators, in which they are listed to users.
[[nodiscard]] std::span<const ContextAttentionRow> context_attention_rows();
[[nodiscard]] std::span<const char* const> context_attention_names();

using ContextAttentionName = std::string_view ContextAttentionRow::*;
/// The first that a framework has: `context_attention_in(&ContextAttentionRow::deepspeed)`.
/// REQUIRES: it has one.
[[nodiscard]] const ContextAttentionRow& context_attention_in(ContextAttentionName framework);
/// The row of that name there; null: none.
[[nodiscard]] const ContextAttentionRow* find_context_attention(ContextAttentionName framework,
                                                                std::string_view name);

using ContextAttentionTrait = bool (*)(const ContextAttentionRow&);
/// "a, b or c": all forms with a trait, each between two `quote`.
[[nodiscard]] std::string context_attentions_that(ContextAttentionTrait has,
                                                  std::string_view before_last = " or ",
                                                  std::string_view quote = "");
inline bool exchanges_no_heads(const ContextAttentionRow& row) {
  return row.exchange == HeadGroups::none;
}
inline bool exchanges_with_all(const ContextAttentionRow& row) {
  return row.exchange == HeadGroups::all;
}
inline bool exchanges_with_chosen(const ContextAttentionRow& row) {
  return row.exchange == HeadGroups::chosen;
}

/// As exchanging_ranks() of the form's row.
[[nodiscard]] int ulysses_size(ContextAttention form, int c, int chosen);

}  // namespace shardsim
