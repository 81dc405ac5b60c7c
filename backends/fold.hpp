#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "backends/rank_span.hpp"

// A world in which some ranks represent others that do the same (docs/decisions/0035).
namespace shardsim {

/// A rank's arguments to a split.
struct SplitChoice {
  int color = 0;
  int key = 0;
  friend bool operator==(const SplitChoice&, const SplitChoice&) = default;
};

/// The members of every color by key, then by their index in `choices`; colors ascend.
[[nodiscard]] std::vector<std::pair<int, std::vector<int>>> members_by_color(
    const std::vector<SplitChoice>& choices);

/// Groups without running ranks that another one represents member by member. Most lie as that one
/// does, some ranks further on: so a million of them are a million numbers.
class Twins {
 public:
  /// No twins.
  Twins() = default;
  /// `members`: of the group that represents them.
  explicit Twins(std::vector<int> members) : members_(std::move(members)) {}

  /// REQUIRES: as many ranks as the group has; no part is made yet.
  void add(const std::vector<int>& twin);
  [[nodiscard]] std::size_t size() const {
    return (distances_ == nullptr ? 0 : distances_->size()) + others_.size();
  }
  [[nodiscard]] int rank(std::size_t twin, int member) const {
    const auto place = static_cast<std::size_t>(member);
    if (is_along(twin)) return members_[place] + (*distances_)[twin];
    return others_[twin + others_.size() - size()][place];
  }
  /// Whether all members are equally far from the group's.
  [[nodiscard]] bool is_along(std::size_t twin) const { return twin + others_.size() < size(); }
  /// The twins of a part of the group: some members, in an order of their own.
  [[nodiscard]] Twins part(const std::vector<int>& members) const;

 private:
  std::vector<int> members_;                     // The group's.
  std::shared_ptr<std::vector<int>> distances_;  // From each member to the twin's.
  std::vector<std::vector<int>> others_;         // Those that lie otherwise.
};

/// Groups that one split of the world makes if not all ranks run.
struct FoldedSplit {
  struct Group {
    int color = 0;
    std::vector<int> members;  ///< World ranks by rank in the group; at least one of them runs.
    Twins twins;               ///< Groups of the same call.
  };
  std::vector<Group> groups;  ///< By color.
};

/// The ranks that run, and the results of the world's splits. Its maker has shown that each rank
/// acts as its representative does.
struct Fold {
  std::vector<int> running;         ///< Ranks that run themselves, ascending.
  std::vector<int> place_of;        ///< By rank: the place of its representative in `running`.
  std::vector<FoldedSplit> splits;  ///< Splits of the world communicator, in program order.

  [[nodiscard]] int num_ranks() const { return static_cast<int>(place_of.size()); }
  /// It is no higher than `rank`.
  [[nodiscard]] int representative_of(int rank) const {
    return running[static_cast<std::size_t>(place_of[static_cast<std::size_t>(rank)])];
  }
  [[nodiscard]] bool runs(int rank) const { return representative_of(rank) == rank; }
};

/// A fold without splits. REQUIRES: a representative is its own, and no higher than the rank.
[[nodiscard]] Fold fold_ranks(int ranks, const std::function<int(int rank)>& representative_of);

/// Throws an internal Error (E7006): this cannot be told where not all ranks run.
[[noreturn]] void refuse_folded(const std::string& what);

/// `groups`: by place in Fold::running, the rank's group in this split of the world. Those of the
/// others lie around them as that does (RankSpan::around). Throws an internal Error (E7006) if a
/// group needs a member that neither runs nor is represented there: the ranks do not correspond.
[[nodiscard]] FoldedSplit fold_split(const Fold& fold, const std::vector<RankSpan>& groups);

/// Groups of ranks with equal rows cost the same on healthy links: which members share a node and a
/// pod, and how many network cards are beside them.
[[nodiscard]] std::vector<int> placement_of(const Cluster& cluster,
                                            const std::vector<int>& members);

/// Whether all groups lie on nodes in the same pattern as their representatives, so that all prices
/// are the same.
[[nodiscard]] bool twins_lie_alike(const FoldedSplit& split, const Cluster& cluster);

}  // namespace shardsim
