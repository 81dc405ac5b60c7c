#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "backends/fold.hpp"
#include "backends/replay/rank_programs.hpp"

// Ranks that do the same at the same times, so that one of them is replayed for all. They have one
// program and one speed, and their groups are alike: on nodes in the same pattern, with members
// that are equal place by place. That is the coarsest such partition of the ranks.
namespace shardsim {

/// The groups that the ranks of a recording form.
struct RecordedGroups {
  struct Group {
    int split = 0;               ///< Equal where the same call of programs has formed it.
    std::vector<int> members;    ///< World ranks.
    std::vector<int> placement;  ///< Equal for groups that cost the same.
    bool has_messages = false;   ///< Members are told apart: some are sent what others are not.
  };
  std::vector<Group> groups;              ///< The first one is the world.
  std::vector<std::vector<int>> of_rank;  ///< By rank, its groups in the order they are formed.
  std::vector<int> splits_of_world;       ///< In the order of the programs.
};

/// By rank, equal numbers where program and speed are equal. A rank of `apart` is like no other.
/// `faults`: null: all are equally fast.
[[nodiscard]] std::vector<int> kinds_of(const RankPrograms& programs, const MachineFaults* faults,
                                        std::span<const int> apart = {});

[[nodiscard]] RecordedGroups groups_of(const RankPrograms& programs, const Cluster& cluster);

/// The ranks to replay, and those that each of them represents. `kinds`: as kinds_of.
/// `with_splits`: with the groups of those that are represented, so that
/// traffic can be counted; else Fold::splits is empty.
[[nodiscard]] Fold share_equal_ranks(const RecordedGroups& recorded, const std::vector<int>& kinds,
                                     bool with_splits);

}  // namespace shardsim
