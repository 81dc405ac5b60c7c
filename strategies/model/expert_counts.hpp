#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "strategies/model/routing.hpp"
#include "strategies/model/sequence_part.hpp"

// How many rows go from whom to whom between ranks that share experts, as far as it is known
// without looking at values.
namespace shardsim {

/// Routing that is declared, not learned: which experts the token at a position of a sequence goes
/// to is a function of layer and position, the same for every sample and under every layout. So
/// plans send what verified runs send, however the routing is skewed.
///
/// The s k slots of a sequence are shared out to experts by largest remainder, an expert never
/// getting more than s: then they are written down expert after expert, and slot j of token t is
/// number t + j s of that list. Two slots of a token are s apart, so they are of different experts.
/// Positions are scattered over t by t = p a mod s, a near s / golden ratio and prime to s: any run
/// of positions meets experts in about their shares. From layer to layer experts move on by one, so
/// that the popular ones are not always the same rank's; where shares are listed, they stay.
class DeclaredRouting {
 public:
  /// REQUIRES: valid options that declare the routing, seq_len >= 1.
  DeclaredRouting(const MoeOptions& options, std::int64_t seq_len);

  /// Expert of a token's slot. `layer` counts those with experts, from 0.
  [[nodiscard]] int expert_of(int layer, std::int64_t position, std::int64_t slot) const;

  /// Slots that each expert gets of a sequence, before it moves on: of a layer's list.
  [[nodiscard]] const std::vector<std::int64_t>& shares(int layer) const {
    return lists_[index_of(layer)].shares;
  }
  /// How many experts layer's have moved on from those of shares().
  [[nodiscard]] int rotation(int layer) const {
    return rotates_ ? layer % static_cast<int>(num_experts_) : 0;
  }
  /// Layers with the same number have the same lists; layers behind the last list have that one.
  [[nodiscard]] std::size_t index_of(int layer) const {
    return std::min(static_cast<std::size_t>(layer), lists_.size() - 1);
  }

 private:
  struct List {
    std::vector<std::int64_t> shares;
    std::vector<int> slots;  // Expert of each of the s k slots.
  };
  std::int64_t num_experts_;
  std::int64_t seq_len_;
  std::int64_t stride_;
  bool rotates_;
  std::vector<List> lists_;
};

/// `total` shared out in proportion to `weights`, none above `most`: largest remainders, the first
/// of equals. REQUIRES: a weight above 0, total <= most x weights.size(). The others get the rest
/// that those with a weight cannot take.
[[nodiscard]] std::vector<std::int64_t> apportion(std::int64_t total,
                                                  const std::vector<double>& weights,
                                                  std::int64_t most);

/// Rows between one rank and the members of a group that a dispatch by node has a hop in.
struct HopCounts {
  std::vector<std::int64_t> sent;      ///< To each member.
  std::vector<std::int64_t> received;  ///< From each.
};

/// Rows between one rank and all of its expert-parallel group.
struct ExpertCounts {
  std::vector<std::int64_t> sent;  ///< To each of the layer's experts, E.
  /// From each member, for each of this rank's experts: E. By node: of all members together.
  std::vector<std::int64_t> received;
  /// Where ranks have slices of the same experts: what each of them received, in their order.
  std::vector<std::int64_t> gathered = {};
  std::vector<HopCounts> hops = {};  ///< By node: see NodeDispatch.

  /// Rows that a rank's experts read: by rank that they came from, and its experts here.
  [[nodiscard]] const std::vector<std::int64_t>& read() const {
    return gathered.empty() ? received : gathered;
  }
};

/// All numbers, in the order of the members; and the counts that have these numbers and the form of
/// others. REQUIRES: they are as many.
[[nodiscard]] std::vector<std::int64_t> numbers_of(const ExpertCounts& counts);
[[nodiscard]] ExpertCounts with_numbers(ExpertCounts form,
                                        const std::vector<std::int64_t>& numbers);

/// An expert-parallel group as one of its members sees it. Members are `slices` apart among the
/// ranks of a stage and replica, counted with token shards (tensor-parallel ranks) fastest, then
/// shares of the sequence (context parallelism); groups with other slices of the same experts lie
/// between.
struct ExpertGroup {
  int size = 1;
  int rank = 0;
  int slices = 1;          ///< Ranks with slices of this rank's experts.
  int slice = 0;           ///< Which of them this rank has.
  std::int64_t first = 0;  ///< Number of member 0 with slice 0 among those ranks.
  int context_parts = 1;
  int token_shards = 1;  ///< 1: a rank has all tokens of its share.
  int nodes = 0;         ///< With dispatch by node: the nodes that it is on; else 0.
};

/// Plans for every layer, made once for all ranks that have the same tokens and the same place in
/// such a group: at thousands of ranks that is few. Keeps what it has made; one run uses it.
class ExpertCountsPlanner {
 public:
  ExpertCountsPlanner(const MoeOptions& options, std::int64_t seq_len);

  [[nodiscard]] bool declares() const { return routing_.has_value(); }
  /// REQUIRES: declares().
  [[nodiscard]] const DeclaredRouting& routing() const { return *routing_; }

  /// Counts of declared routing, or a plan's assumption for learned routing: every expert gets
  /// equally many tokens, and the remainder to experts at equal distances, which move on by one
  /// from member to member and layer to layer. `rows`: tokens of every member.
  [[nodiscard]] std::shared_ptr<const ExpertCounts> counts(int layer, const ExpertGroup& group,
                                                           std::int64_t rows) const;
  /// `rows` to and from every expert, as when tokens beyond a capacity are dropped.
  [[nodiscard]] std::shared_ptr<const ExpertCounts> equal(std::int64_t rows) const;

 private:
  using Slots = std::vector<std::int64_t>;
  // By list of popularity, share of the sequence, token shard and rows.
  using ShareKey = std::tuple<std::size_t, int, int, std::int64_t>;
  // By layer, member and slice, first member's place in the order of shares, and rows; of learned
  // routing, by moved_on(), member and slice, 0 and rows.
  using GroupKey = std::tuple<int, int, std::int64_t, std::int64_t>;
  // By layer, share of the sequence, token shard, rows and parts; of learned routing, 0 for the
  // first three.
  using CopiesKey = std::tuple<int, int, int, std::int64_t, int>;

  /// Slots of a member's tokens by expert, before a layer moves them on.
  [[nodiscard]] const Slots& slots_of(int layer, SequencePart part, int token_shard,
                                      std::int64_t rows) const;
  /// For learned routing and the `number`-th rank's tokens: how far the experts that get one slot
  /// more have moved on.
  [[nodiscard]] std::int64_t moved_on(int layer, std::int64_t number, std::int64_t rows) const;
  [[nodiscard]] Slots slots_of_member(int layer, const ExpertGroup& group, int member,
                                      std::int64_t rows) const;
  [[nodiscard]] Slots received_by(int layer, const ExpertGroup& group, std::int64_t rows) const;
  /// Copies of a member's tokens that reach each of `parts` equal parts of the group.
  [[nodiscard]] const Slots& copies_of_member(int layer, const ExpertGroup& group, int member,
                                              std::int64_t rows, int parts) const;
  [[nodiscard]] std::vector<HopCounts> hops_of(int layer, const ExpertGroup& group,
                                               std::int64_t rows) const;

  MoeOptions options_;
  std::int64_t seq_len_;
  std::optional<DeclaredRouting> routing_;
  mutable std::map<ShareKey, Slots> shares_;
  mutable std::map<GroupKey, std::shared_ptr<const ExpertCounts>> groups_;
  mutable std::map<CopiesKey, Slots> copies_;
  mutable std::map<std::int64_t, std::shared_ptr<const ExpertCounts>> equal_;  // By rows.
};

/// How a plan shares a rank's `rows` tokens out to experts that learned routing chooses: each
/// expert gets equally many slots, and `extra` of each `period` experts in a row one more.
struct EvenShares {
  std::int64_t each = 0;
  std::int64_t extra = 0;
  std::int64_t period = 1;

  /// Slots of an expert, after the experts with one more have moved on so far.
  [[nodiscard]] std::int64_t of(std::int64_t expert, std::int64_t moved_on) const {
    return each + ((expert + moved_on) % period * extra % period < extra ? 1 : 0);
  }
  /// Whether each of `members` that divide the experts gets as many slots as any other, whichever
  /// layer and rank the tokens are of.
  [[nodiscard]] bool are_alike(std::int64_t num_experts, std::int64_t members) const {
    return num_experts / members % period == 0;
  }
};
[[nodiscard]] EvenShares even_shares(const MoeOptions& options, std::int64_t rows);

/// Position in its sample of a rank's row, where rows are the tokens of `part` of every sample, one
/// after the other, from `first_token` on.
[[nodiscard]] std::int64_t position_of_row(std::int64_t row, std::int64_t first_token,
                                           SequencePart part, std::int64_t seq_len);

}  // namespace shardsim
