#pragma once

#include <cstddef>
#include <vector>

#include "sim/hardware/cluster.hpp"

// A world in which some ranks stand for others that do the same (docs/decisions/0035).
namespace shardsim {

/// What a rank gives to a split.
struct SplitChoice {
  int color = 0;
  int key = 0;
  friend bool operator==(const SplitChoice&, const SplitChoice&) = default;
};

/// What one split of the world makes where not all ranks run.
struct FoldedSplit {
  struct Group {
    int color = 0;
    std::vector<int> members;  ///< World ranks by rank in the group; at least one of them runs.
    /// Groups of the same call in which nobody runs: this one stands for them, member by member.
    std::vector<std::vector<int>> twins;
  };
  std::vector<Group> groups;  ///< By color.
};

/// Which ranks run, and what the world's splits come to. Whoever makes one has shown that each rank
/// does what its representative does.
struct Fold {
  std::vector<int> representative;  ///< As EngineOptions::representative.
  std::vector<FoldedSplit> splits;  ///< Of the communicator of all ranks, in program order.

  [[nodiscard]] int representative_of(int rank) const {
    return representative[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool runs(int rank) const { return representative_of(rank) == rank; }
};

/// `choices`: of all ranks. Throws an internal Error (E7006) if a group would need somebody in it
/// who neither runs nor is represented there: the ranks do not correspond.
[[nodiscard]] FoldedSplit fold_split(const Fold& fold, const std::vector<SplitChoice>& choices);

/// Whether the members of all groups lie on nodes in the same pattern as those of the groups that
/// stand for them, so that all prices are the same.
[[nodiscard]] bool twins_lie_alike(const FoldedSplit& split, const Cluster& cluster);

}  // namespace shardsim
