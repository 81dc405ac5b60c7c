#pragma once

#include "strategies/model/layer.hpp"

// Where the tokens of a dispatch by node go. Experts lie node by node, and inside a node rank by
// rank, equally many on each. `chosen` [n, k] int32 names the k experts of each token, all of them,
// on every hop.
namespace shardsim {

/// Nodes that an expert-parallel group is on, its ranks on each, and the experts of a rank.
struct DispatchGrid {
  int nodes = 1;
  int ranks = 1;
  std::int64_t experts = 1;
};

/// Experts of the members of a hop: member i has `each` of them, from `first` + i x `each` on.
struct HopExperts {
  std::int64_t first = 0;
  std::int64_t each = 1;
  int members = 1;

  /// -1: nobody's.
  [[nodiscard]] std::int64_t member_of(std::int64_t expert) const {
    const bool is_theirs = expert >= first && expert < first + each * members;
    return is_theirs ? (expert - first) / each : -1;
  }
};

/// A rank tells each node of the tokens that it sends there, [nodes, 1 + ranks + ranks x experts]
/// int32: how many, how many of them each rank there gets, and how often each expert is meant.
[[nodiscard]] Tensor count_for_nodes(Runtime& runtime, const Tensor& chosen,
                                     const DispatchGrid& grid);
/// Then it tells each rank of its own node, from what all nodes told it: [ranks, 1 + experts]
/// int32, how many tokens it passes on, and how often each expert is meant.
[[nodiscard]] Tensor count_for_ranks(Runtime& runtime, const Tensor& told,
                                     const DispatchGrid& grid);

/// Copies of tokens, at most one to each member, member by member and then by token: [rows] int32,
/// token x members + member. It is an `order` of expert_rows.hpp with members for experts.
/// REQUIRES: `rows` copies, where there is data.
[[nodiscard]] Tensor order_copies(Runtime& runtime, const Tensor& chosen, const HopExperts& hop,
                                  std::int64_t rows);
/// Pairs of tokens and experts that are here, expert by expert: an `order` of `rows` pairs, token x
/// k + slot. `here`: each member is an expert of this rank.
[[nodiscard]] Tensor order_pairs(Runtime& runtime, const Tensor& chosen, const HopExperts& here,
                                 std::int64_t rows);

}  // namespace shardsim
