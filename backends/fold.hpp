#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "sim/hardware/cluster.hpp"

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

/// Groups that one split of the world makes if not all ranks run.
struct FoldedSplit {
  struct Group {
    int color = 0;
    std::vector<int> members;  ///< World ranks by rank in the group; at least one of them runs.
    /// Groups of the same call without running ranks; this one represents them member by member.
    std::vector<std::vector<int>> twins;
  };
  std::vector<Group> groups;  ///< By color.
};

/// The ranks that run, and the results of the world's splits. Its maker has shown that each rank
/// acts as its representative does.
struct Fold {
  std::vector<int> representative;  ///< As EngineOptions::representative.
  std::vector<FoldedSplit> splits;  ///< Splits of the world communicator, in program order.

  [[nodiscard]] int representative_of(int rank) const {
    return representative[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool runs(int rank) const { return representative_of(rank) == rank; }
};

/// Throws an internal Error (E7006): this cannot be told where not all ranks run.
[[noreturn]] void refuse_folded(const std::string& what);

/// `choices`: of all ranks. Throws an internal Error (E7006) if a group needs a member that neither
/// runs nor is represented there: the ranks do not correspond.
[[nodiscard]] FoldedSplit fold_split(const Fold& fold, const std::vector<SplitChoice>& choices);

/// Groups of ranks with equal rows cost the same on healthy links: which members share a node and a
/// pod, and how many network cards are beside them.
[[nodiscard]] std::vector<int> placement_of(const Cluster& cluster,
                                            const std::vector<int>& members);

/// Whether all groups lie on nodes in the same pattern as their representatives, so that all prices
/// are the same.
[[nodiscard]] bool twins_lie_alike(const FoldedSplit& split, const Cluster& cluster);

}  // namespace shardsim
