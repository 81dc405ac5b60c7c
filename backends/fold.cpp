#include "backends/fold.hpp"

#include <algorithm>
#include <map>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

using Members = std::vector<int>;

[[noreturn]] void does_not_correspond(int rank) {
  refuse_folded("rank " + std::to_string(rank) +
                " is in no group like that of the rank that stands for it");
}

// Every member runs, or is represented by one that does.
void require_represented(const Fold& fold, const Members& members) {
  Members running;
  for (const int rank : members) {
    if (fold.runs(rank)) running.push_back(rank);
  }
  std::sort(running.begin(), running.end());
  for (const int rank : members) {
    if (!std::binary_search(running.begin(), running.end(), fold.representative_of(rank))) {
      does_not_correspond(rank);
    }
  }
}

void require_same_representatives(const Fold& fold, const Members& twin, const Members& members) {
  if (twin.size() != members.size()) does_not_correspond(twin.front());
  for (std::size_t i = 0; i < twin.size(); ++i) {
    if (fold.representative_of(twin[i]) != fold.representative_of(members[i])) {
      does_not_correspond(twin[i]);
    }
  }
}

// Numbers instead of names: 0 for the first, and so on.
class Numbering {
 public:
  int of(int name) {
    return numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<int, int> numbers_;
};

}  // namespace

void refuse_folded(const std::string& what) {
  throw Error(ExitCode::internal, "E7006", what,
              "use execution.fold \"off\", and please report this scenario");
}

std::vector<std::pair<int, Members>> members_by_color(const std::vector<SplitChoice>& choices) {
  struct Seat {
    int color;
    int key;
    int member;
    auto operator<=>(const Seat&) const = default;
  };
  std::vector<Seat> seats;
  seats.reserve(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    seats.push_back({choices[i].color, choices[i].key, static_cast<int>(i)});
  }
  std::sort(seats.begin(), seats.end());
  std::vector<std::pair<int, Members>> colors;
  for (const Seat& seat : seats) {
    if (colors.empty() || colors.back().first != seat.color) colors.push_back({seat.color, {}});
    colors.back().second.push_back(seat.member);
  }
  return colors;
}

FoldedSplit fold_split(const Fold& fold, const std::vector<SplitChoice>& choices) {
  std::vector<std::pair<int, Members>> colors = members_by_color(choices);
  FoldedSplit split;
  std::vector<int> group_of(choices.size(), -1);  // Set for ranks that run.
  for (auto& [color, members] : colors) {
    const bool runs =
        std::any_of(members.begin(), members.end(), [&](int rank) { return fold.runs(rank); });
    if (!runs) continue;
    require_represented(fold, members);
    for (const int rank : members) {
      group_of[static_cast<std::size_t>(rank)] = static_cast<int>(split.groups.size());
    }
    split.groups.push_back({.color = color, .members = std::move(members)});
    members.clear();
  }
  for (auto& [color, members] : colors) {
    if (members.empty()) continue;
    const int like = fold.representative_of(members.front());
    FoldedSplit::Group& group =
        split.groups[static_cast<std::size_t>(group_of[static_cast<std::size_t>(like)])];
    require_same_representatives(fold, members, group.members);
    group.twins.push_back(std::move(members));
  }
  return split;
}

std::vector<int> placement_of(const Cluster& cluster, const Members& members) {
  Numbering nodes;
  Numbering pods;
  std::vector<int> placement;
  placement.reserve(2 * members.size() + 1);
  for (const int rank : members) {
    const int node = cluster.node_of(rank);
    placement.push_back(nodes.of(node));
    if (cluster.nodes_per_pod > 0) placement.push_back(pods.of(cluster.pod_of(node)));
  }
  // With a card or more for each GPU they are as many as the members of a node.
  if (cluster.nics() < cluster.gpus_per_node) {
    placement.push_back(GroupLayout(cluster, members).nics);
  }
  return placement;
}

bool twins_lie_alike(const FoldedSplit& split, const Cluster& cluster) {
  for (const FoldedSplit::Group& group : split.groups) {
    if (group.twins.empty()) continue;
    const std::vector<int> placement = placement_of(cluster, group.members);
    for (const Members& twin : group.twins) {
      if (placement_of(cluster, twin) != placement) return false;
    }
  }
  return true;
}

}  // namespace shardsim
