#include "backends/fold.hpp"

#include <algorithm>
#include <map>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

using Members = std::vector<int>;

std::size_t place_of(const Fold& fold, int rank) {
  return static_cast<std::size_t>(fold.place_of[static_cast<std::size_t>(rank)]);
}

[[noreturn]] void does_not_correspond(int rank) {
  refuse_folded("rank " + std::to_string(rank) +
                " is in no group like that of the rank that stands for it");
}

// Every member runs, or is represented by one that does.
void require_represented(const Fold& fold, const Members& members) {
  std::vector<bool> runs_here(fold.running.size());
  for (const int rank : members) {
    if (fold.runs(rank)) runs_here[place_of(fold, rank)] = true;
  }
  for (const int rank : members) {
    if (!runs_here[place_of(fold, rank)]) does_not_correspond(rank);
  }
}

void require_same_representatives(const Fold& fold, const Members& twin, const Members& members) {
  if (twin.size() != members.size()) does_not_correspond(twin.front());
  for (std::size_t i = 0; i < twin.size(); ++i) {
    if (place_of(fold, twin[i]) != place_of(fold, members[i])) does_not_correspond(twin[i]);
  }
}

Members members_of(const RankSpan& span) {
  Members members(static_cast<std::size_t>(span.size));
  for (int member = 0; member < span.size; ++member) {
    members[static_cast<std::size_t>(member)] = span.rank(member);
  }
  return members;
}

// The groups of one split, without a list of all their members.
class SplitFolder {
 public:
  SplitFolder(const Fold& fold, const std::vector<RankSpan>& groups)
      : fold_(fold), groups_(groups), is_seen_(fold.place_of.size()) {}

  FoldedSplit result() {
    for (const int rank : fold_.running) add_running(rank);
    std::ranges::sort(split_.groups, {}, &FoldedSplit::Group::color);
    group_of_.resize(fold_.running.size());
    for (std::size_t i = 0; i < split_.groups.size(); ++i) {
      for (const int rank : split_.groups[i].members) {
        if (fold_.runs(rank)) group_of_[place_of(fold_, rank)] = i;
      }
    }
    for (const int rank : fold_.running) require_seated(rank);
    for (int rank = 0; rank < fold_.num_ranks(); ++rank) add_twin(rank);
    return std::move(split_);
  }

 private:
  [[nodiscard]] Members take(const RankSpan& span) {
    Members members = members_of(span);
    for (const int rank : members) {
      if (is_seen_.at(static_cast<std::size_t>(rank))) does_not_correspond(rank);
      is_seen_[static_cast<std::size_t>(rank)] = true;
    }
    return members;
  }

  void add_running(int rank) {
    const RankSpan& span = groups_[place_of(fold_, rank)];
    if (span.size == 0) return;
    if (is_seen_[static_cast<std::size_t>(rank)]) return;
    Members members = take(span);
    require_represented(fold_, members);
    const int color = members.front();
    Twins twins(members);
    split_.groups.push_back({color, std::move(members), std::move(twins)});
  }

  // The rank is in the group that it names.
  void require_seated(int rank) const {
    const RankSpan& span = groups_[place_of(fold_, rank)];
    const bool joins = span.size > 0;
    if (joins != is_seen_[static_cast<std::size_t>(rank)]) does_not_correspond(rank);
    if (!joins) return;
    const FoldedSplit::Group& group = split_.groups[group_of_[place_of(fold_, rank)]];
    const int member = span.member_of(rank);
    if (group.color != span.rank(0) || member < 0) does_not_correspond(rank);
    if (group.members.at(static_cast<std::size_t>(member)) != rank) does_not_correspond(rank);
  }

  void add_twin(int rank) {
    if (is_seen_[static_cast<std::size_t>(rank)]) return;
    const RankSpan& like = groups_[place_of(fold_, rank)];
    if (like.size == 0) return;
    const Members twin = take(like.around(rank));
    FoldedSplit::Group& group = split_.groups[group_of_[place_of(fold_, twin.front())]];
    require_same_representatives(fold_, twin, group.members);
    group.twins.add(twin);
  }

  const Fold& fold_;
  const std::vector<RankSpan>& groups_;
  std::vector<bool> is_seen_;          // By rank.
  std::vector<std::size_t> group_of_;  // By place of a rank that runs.
  FoldedSplit split_;
};

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

Fold fold_ranks(int ranks, const std::function<int(int rank)>& representative_of) {
  Fold fold;
  fold.place_of.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int by = representative_of(rank);
    if (by == rank) {
      fold.place_of.push_back(static_cast<int>(fold.running.size()));
      fold.running.push_back(rank);
    } else {
      fold.place_of.push_back(fold.place_of[static_cast<std::size_t>(by)]);
    }
  }
  return fold;
}

// --- Twins -------------------------------------------------------------------------------------

void Twins::add(const Members& twin) {
  const int distance = twin.front() - members_.front();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (twin[i] - members_[i] == distance) continue;
    others_.push_back(twin);
    return;
  }
  if (distances_ == nullptr) distances_ = std::make_shared<std::vector<int>>();
  distances_->push_back(distance);
}

Twins Twins::part(const Members& members) const {
  const auto of = [&members](const Members& whole) {
    Members own;
    own.reserve(members.size());
    for (const int member : members) own.push_back(whole.at(static_cast<std::size_t>(member)));
    return own;
  };
  Twins twins;
  if (size() == 0) return twins;
  twins.members_ = of(members_);
  twins.distances_ = distances_;
  for (const Members& other : others_) twins.others_.push_back(of(other));
  return twins;
}

// --- Splits ------------------------------------------------------------------------------------

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

FoldedSplit fold_split(const Fold& fold, const std::vector<RankSpan>& groups) {
  return SplitFolder(fold, groups).result();
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

namespace {

// Whether all members of a twin are on nodes as far from the group's as whole pods are, and beside
// the same cards: that shows without a look at its placement.
bool is_nodes_apart(const FoldedSplit::Group& group, std::size_t twin, const Cluster& cluster) {
  const bool cards_count = cluster.nics() < cluster.gpus_per_node;
  const auto node_of_twin = [&](int member) {
    return cluster.node_of(group.twins.rank(twin, member));
  };
  const int distance = node_of_twin(0) - cluster.node_of(group.members.front());
  if (cluster.nodes_per_pod > 0 && distance % cluster.nodes_per_pod != 0) return false;
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    const int rank = group.members[static_cast<std::size_t>(member)];
    const int other = group.twins.rank(twin, member);
    if (cluster.node_of(other) - cluster.node_of(rank) != distance) return false;
    if (cards_count && (other - rank) % cluster.gpus_per_node != 0) return false;
  }
  return true;
}

bool lies_alike(const FoldedSplit::Group& group, std::size_t twin, const Cluster& cluster) {
  if (is_nodes_apart(group, twin, cluster)) return true;
  Members members;
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    members.push_back(group.twins.rank(twin, member));
  }
  return placement_of(cluster, members) == placement_of(cluster, group.members);
}

}  // namespace

bool twins_lie_alike(const FoldedSplit& split, const Cluster& cluster) {
  // Groups that are whole nodes, and whole pods, apart lie alike.
  const int period = cluster.gpus_per_node * std::max(cluster.nodes_per_pod, 1);
  for (const FoldedSplit::Group& group : split.groups) {
    std::vector<bool> is_known(static_cast<std::size_t>(period));  // By the first rank's place.
    is_known[static_cast<std::size_t>(group.members.front() % period)] = true;
    for (std::size_t twin = 0; twin < group.twins.size(); ++twin) {
      const auto place = static_cast<std::size_t>(group.twins.rank(twin, 0) % period);
      const bool is_along = group.twins.is_along(twin);
      if (is_along && is_known[place]) continue;
      if (!lies_alike(group, twin, cluster)) return false;
      if (is_along) is_known[place] = true;
    }
  }
  return true;
}

}  // namespace shardsim
