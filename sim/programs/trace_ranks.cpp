#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

#include "sim/programs/trace_groups.hpp"
#include "sim/programs/trace_link.hpp"

// Ranks that have no trace of their own.
namespace shardsim {

namespace {

constexpr int kMostTracedRanks = 1 << 16;

// As many as are named anywhere.
int least_ranks_of(const TraceSet& traces) {
  int ranks = 0;
  for (const TraceRank& trace : traces.ranks) ranks = std::max(ranks, trace.rank + 1);
  for (const auto& [_, members] : traces.groups) {
    for (const int member : members) ranks = std::max(ranks, member + 1);
  }
  return ranks;
}

UsageError bad_ranks(const std::string& message) {
  return {"E1383", message, "give the traces of these ranks, too, and --ranks for their number"};
}

TraceRank copy_for(int rank, const TraceRank& model, const TraceGroups& groups) {
  TraceRank copy = model;
  copy.rank = rank;
  for (TraceNode& node : copy.nodes) {
    if (node.group.empty() || (node.group == kWholeWorld && node.peer < 0)) continue;
    const std::string other = groups.counterpart(node.group, rank);
    if (other.empty()) {
      throw bad_ranks(fmt::format("rank {} has no trace, nor a group like \"{}\" of rank {}", rank,
                                  printable(node.group, 60), model.rank));
    }
    if (node.peer >= 0) {
      const std::vector<int>& members = groups.members_of(node.group);
      const auto place = std::ranges::find(members, node.peer) - members.begin();
      if (place == std::ssize(members) || node.group == kWholeWorld) {
        throw bad_ranks(
            fmt::format("rank {} has no trace, and the peers of rank {} are not told by "
                        "a group",
                        rank, model.rank));
      }
      node.peer = groups.members_of(other)[static_cast<std::size_t>(place)];
    }
    node.group = other;
  }
  return copy;
}

// Groups that lie all over the ranks as those that are known.
void add_groups_of_kinds(TraceSet& traces, int num_ranks) {
  const std::map<std::string, std::vector<int>> known = traces.groups;
  for (const auto& [name, members] : known) {
    const std::optional<RankSpan> span = span_of(members);
    if (!span || !lies_as_its_kind(*span)) continue;
    const std::string kind = name.substr(0, name.rfind(" ["));
    std::set<int> done;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (done.contains(rank)) continue;
      const RankSpan own = span->around(rank);
      std::vector<int> others;
      for (int member = 0; member < own.size; ++member) others.push_back(own.rank(member));
      const bool are_there =
          std::ranges::all_of(others, [&](int each) { return each >= 0 && each < num_ranks; });
      if (!are_there) break;
      done.insert(others.begin(), others.end());
      traces.groups.try_emplace(name_of_group(kind, others), std::move(others));
    }
  }
}

}  // namespace

std::string name_of_group(const std::string& name, const std::vector<int>& members) {
  return fmt::format("{} [{}]", name, fmt::join(members, ", "));
}

void complete_ranks(TraceSet& traces, int num_ranks) {
  std::ranges::stable_sort(traces.ranks, {}, &TraceRank::rank);
  const int least = least_ranks_of(traces);
  if (num_ranks == 0) num_ranks = least;
  if (num_ranks < least || num_ranks > kMostTracedRanks) {
    throw bad_ranks(
        fmt::format("{} ranks are asked for, and the traces name {}; {} can be replayed", num_ranks,
                    least, kMostTracedRanks));
  }
  for (std::size_t i = 1; i < traces.ranks.size(); ++i) {
    if (traces.ranks[i].rank != traces.ranks[i - 1].rank) continue;
    throw bad_ranks(fmt::format("rank {} has two traces", traces.ranks[i].rank));
  }
  if (std::ssize(traces.ranks) == num_ranks) return;
  if (!traces.lists_all_groups) add_groups_of_kinds(traces, num_ranks);
  const TraceGroups groups(traces.groups, num_ranks);
  const std::vector<TraceRank> given = std::move(traces.ranks);
  traces.ranks.clear();
  std::vector<int> traced;
  for (const TraceRank& trace : given) traced.push_back(trace.rank);
  auto next = given.begin();
  for (int rank = 0; rank < num_ranks; ++rank) {
    const bool is_given = next != given.end() && next->rank == rank;
    traces.ranks.push_back(
        is_given ? *next++ : copy_for(rank, given[groups.most_alike(rank, traced)], groups));
  }
  traces.notes.push_back(
      fmt::format("{} of {} ranks have no trace: each does what the rank does that is in the same "
                  "places of its groups",
                  num_ranks - std::ssize(given), num_ranks));
}

void drop_idle_groups(TraceSet& traces) {
  std::set<std::string> used;
  for (const TraceRank& rank : traces.ranks) {
    for (const TraceNode& node : rank.nodes) used.insert(node.group);
  }
  std::erase_if(traces.groups, [&](const auto& group) { return !used.contains(group.first); });
}

}  // namespace shardsim
