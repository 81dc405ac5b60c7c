#include "backends/replay/equal_ranks.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "backends/program/program_tables.hpp"

namespace shardsim {

namespace {

using Numbers = std::map<std::vector<int>, int>;

// The number of a row of numbers: equal ones have one.
int number_of(Numbers& known, std::vector<int> row) {
  return known.try_emplace(std::move(row), static_cast<int>(known.size())).first->second;
}

// By the program's group: whether a call on it moves something between some members only.
std::vector<bool> groups_with_messages(const RankProgram& program) {
  std::vector<bool> has(program.groups.size());
  for (const ProgramStep& step : program.steps) {
    if (step.kind != ProgramStep::Kind::post) continue;
    const ProgramCall& call = program.tables->call(step.row);
    const bool apart =
        call.kind != CallKind::collective || row_of(call.collective).path == CollectivePath::pairs;
    if (apart) has[static_cast<std::size_t>(call.group)] = true;
  }
  return has;
}

// Where links of nodes differ, so do groups on different nodes.
std::vector<int> placement_with_links(const std::vector<int>& members, const Cluster& cluster) {
  std::vector<int> placement = placement_of(cluster, members);
  if (cluster.faults == nullptr || !cluster.faults->tells_nodes_apart()) return placement;
  for (const int rank : members) placement.push_back(cluster.node_of(rank));
  return placement;
}

class GroupFinder {
 public:
  GroupFinder(const RankPrograms& programs, const Cluster& cluster)
      : programs_(programs), cluster_(cluster) {
    std::vector<int> everyone(programs.of_rank.size());
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
      everyone[rank] = static_cast<int>(rank);
    }
    found_.groups.emplace_back();
    found_.groups.front().members = std::move(everyone);
    for (const RankProgram& program : programs.programs) {
      messages_.push_back(groups_with_messages(program));
    }
  }

  RecordedGroups find() {
    for (const int rank : std::vector<int>(found_.groups.front().members)) add_rank(rank);
    for (std::size_t i = 1; i < found_.groups.size(); ++i) {
      found_.groups[i].placement = placement_with_links(found_.groups[i].members, cluster_);
    }
    return std::move(found_);
  }

 private:
  void add_rank(int rank) {
    const RankProgram& program = programs_.program_of(rank);
    const auto kind = static_cast<std::size_t>(programs_.of_rank[static_cast<std::size_t>(rank)]);
    std::vector<int> own = {0};           // By the program's group; -1: this rank joins none.
    std::vector<int> num_children = {0};  // By the same.
    found_.groups[0].has_messages = found_.groups[0].has_messages || messages_[kind][0];
    for (std::size_t place = 1; place < program.groups.size(); ++place) {
      const ProgramGroup& made = program.groups[place];
      const auto parent = static_cast<std::size_t>(made.parent);
      const int group = add_group(made, rank, own[parent], num_children[parent]++);
      own.push_back(group);
      num_children.push_back(0);
      if (group < 0 || !messages_[kind][place]) continue;
      found_.groups[static_cast<std::size_t>(group)].has_messages = true;
    }
    std::erase(own, -1);
    found_.of_rank.push_back(std::move(own));
  }

  int add_group(const ProgramGroup& made, int rank, int parent, int child) {
    const int split =
        number_of(splits_, {found_.groups[static_cast<std::size_t>(parent)].split, child});
    if (made.parent == 0 &&
        std::ranges::find(found_.splits_of_world, split + 1) == found_.splits_of_world.end()) {
      found_.splits_of_world.push_back(split + 1);
    }
    const RankSpan span = made.members_for(rank);
    if (span.size == 0) return -1;
    const auto [known, is_new] =
        known_.try_emplace({parent, split, span.rank(0)}, static_cast<int>(found_.groups.size()));
    if (!is_new) return known->second;
    RecordedGroups::Group group;
    group.split = split + 1;
    const std::vector<int>& of = found_.groups[static_cast<std::size_t>(parent)].members;
    for (int i = 0; i < span.size; ++i) {
      group.members.push_back(of[static_cast<std::size_t>(span.rank(i))]);
    }
    found_.groups.push_back(std::move(group));
    return known->second;
  }

  const RankPrograms& programs_;
  const Cluster& cluster_;
  RecordedGroups found_;
  std::vector<std::vector<bool>> messages_;  // By program.
  Numbers splits_;                           // By the parent's, and how many it had before.
  std::map<std::array<int, 3>, int> known_;  // By parent, split and first member in the parent.
};

int place_in(const RecordedGroups::Group& group, int rank) {
  const auto found = std::ranges::find(group.members, rank);
  return static_cast<int>(found - group.members.begin());
}

// The coarsest classes of ranks, and of groups.
struct Classes {
  std::vector<int> of_rank;
  std::vector<int> of_group;
};

Classes equal_classes(const RecordedGroups& recorded, const std::vector<int>& kinds) {
  Classes classes{.of_rank = kinds, .of_group = std::vector<int>(recorded.groups.size())};
  std::size_t count = 0;
  while (true) {
    Numbers groups;
    for (std::size_t i = 1; i < recorded.groups.size(); ++i) {
      const RecordedGroups::Group& group = recorded.groups[i];
      std::vector<int> row = group.placement;
      row.push_back(group.split);
      for (const int member : group.members) {
        row.push_back(classes.of_rank[static_cast<std::size_t>(member)]);
      }
      classes.of_group[i] = number_of(groups, std::move(row));
    }
    Numbers ranks;
    for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
      std::vector<int> row = {classes.of_rank[rank]};
      for (const int number : recorded.of_rank[rank]) {
        const RecordedGroups::Group& group = recorded.groups[static_cast<std::size_t>(number)];
        row.push_back(classes.of_group[static_cast<std::size_t>(number)]);
        if (group.has_messages) row.push_back(place_in(group, static_cast<int>(rank)));
      }
      classes.of_rank[rank] = number_of(ranks, std::move(row));
    }
    if (ranks.size() == count) return classes;
    count = ranks.size();
  }
}

// By rank, whether it is replayed: the first rank of each class, and what it needs to find in its
// groups: a rank of each class, or every member that messages tell apart.
std::vector<bool> running_ranks(const RecordedGroups& recorded, const Classes& classes) {
  const std::size_t ranks = classes.of_rank.size();
  std::vector<bool> runs(ranks);
  std::vector<bool> is_met(ranks);  // By class.
  std::vector<bool> is_done(recorded.groups.size());
  std::vector<std::size_t> open;
  const auto run = [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (!runs[index]) open.push_back(index);
    runs[index] = true;
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto own = static_cast<std::size_t>(classes.of_rank[rank]);
    if (is_met[own]) continue;
    is_met[own] = true;
    run(static_cast<int>(rank));
  }
  while (!open.empty()) {
    const std::size_t rank = open.back();
    open.pop_back();
    for (const int number : recorded.of_rank[rank]) {
      const auto place = static_cast<std::size_t>(number);
      if (place == 0 && !recorded.groups[0].has_messages) continue;  // All classes run.
      if (is_done[place]) continue;
      is_done[place] = true;
      const RecordedGroups::Group& group = recorded.groups[place];
      std::vector<int> met;
      for (const int member : group.members) {
        const auto index = static_cast<std::size_t>(member);
        if (runs[index]) met.push_back(classes.of_rank[index]);
      }
      for (const int member : group.members) {
        const int own = classes.of_rank[static_cast<std::size_t>(member)];
        if (!group.has_messages && std::ranges::find(met, own) != met.end()) continue;
        met.push_back(own);
        run(member);
      }
    }
  }
  return runs;
}

// The groups of one split of the world: those with ranks that run, and their twins.
FoldedSplit folded_split(const RecordedGroups& recorded, const Classes& classes,
                         const std::vector<bool>& runs, int split) {
  FoldedSplit folded;
  std::map<int, std::size_t> place_of;  // By class.
  const auto has_running = [&](const RecordedGroups::Group& group) {
    return std::ranges::any_of(group.members,
                               [&](int rank) { return runs[static_cast<std::size_t>(rank)]; });
  };
  for (const bool running : {true, false}) {
    for (std::size_t i = 1; i < recorded.groups.size(); ++i) {
      const RecordedGroups::Group& group = recorded.groups[i];
      if (group.split != split || has_running(group) != running) continue;
      if (running) {
        place_of.try_emplace(classes.of_group[i], folded.groups.size());
        folded.groups.push_back({.color = group.members.front(),
                                 .members = group.members,
                                 .twins = Twins(group.members)});
      } else {
        folded.groups[place_of.at(classes.of_group[i])].twins.add(group.members);
      }
    }
  }
  return folded;
}

}  // namespace

std::vector<int> kinds_of(const RankPrograms& programs, const MachineFaults* faults,
                          std::span<const int> apart) {
  std::map<std::tuple<int, double, int>, int> known;
  std::vector<int> kinds;
  for (int rank = 0; rank < static_cast<int>(programs.of_rank.size()); ++rank) {
    const bool is_apart = std::ranges::find(apart, rank) != apart.end();
    const std::tuple key(programs.of_rank[static_cast<std::size_t>(rank)],
                         faults == nullptr ? 1.0 : faults->slowdown_of(rank), is_apart ? rank : -1);
    kinds.push_back(known.try_emplace(key, static_cast<int>(known.size())).first->second);
  }
  return kinds;
}

RecordedGroups groups_of(const RankPrograms& programs, const Cluster& cluster) {
  return GroupFinder(programs, cluster).find();
}

Fold share_equal_ranks(const RecordedGroups& recorded, const std::vector<int>& kinds,
                       bool with_splits) {
  const Classes classes = equal_classes(recorded, kinds);
  const std::vector<bool> runs = running_ranks(recorded, classes);
  std::vector<int> first(kinds.size(), -1);  // By class.
  Fold fold = fold_ranks(static_cast<int>(kinds.size()), [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    int& of_class = first[static_cast<std::size_t>(classes.of_rank[index])];
    if (of_class < 0) of_class = rank;
    return runs[index] ? rank : of_class;
  });
  if (!with_splits) return fold;
  for (const int split : recorded.splits_of_world) {
    fold.splits.push_back(folded_split(recorded, classes, runs, split));
  }
  return fold;
}

}  // namespace shardsim
