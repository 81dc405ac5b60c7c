#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/call.hpp"
#include "backends/fiber/fiber_group.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/mailbox.hpp"
#include "backends/fiber/stall_parts.hpp"

namespace shardsim {

namespace {

Diagnosis explain_mismatch(const TransferOperation& operation, Time time) {
  const FiberGroup& group = *operation.group();
  Diagnosis diagnosis = explain_mismatched_message(
      operation.sequence(), {group.world_rank(operation.source()), operation.side(true)},
      {group.world_rank(operation.destination()), operation.side(false)});
  locate(diagnosis, operation, time);
  return diagnosis;
}

bool mismatched(const FiberOperation& operation) {
  if (const auto* collective = dynamic_cast<const CollectiveOperation*>(&operation)) {
    return !collective->disagreements().empty();
  }
  const auto* transfer = dynamic_cast<const TransferOperation*>(&operation);
  return transfer != nullptr && transfer->mismatched();
}

// The first mismatch of the first group that has one: what follows it may be its consequence.
std::optional<Diagnosis> find_mismatch(const std::deque<FiberGroup>& groups, Time time) {
  for (const FiberGroup& group : groups) {
    const FiberOperation* first = nullptr;
    for (const FiberOperation* operation : group.open_operations()) {
      if (!mismatched(*operation)) continue;
      if (first == nullptr || operation->sequence() < first->sequence()) first = operation;
    }
    if (first == nullptr) continue;
    if (const auto* collective = dynamic_cast<const CollectiveOperation*>(first)) {
      return explain_mismatch(*collective, time);
    }
    return explain_mismatch(static_cast<const TransferOperation&>(*first), time);
  }
  return std::nullopt;
}

// --- Who waits for whom ------------------------------------------------------------------------

// A member of a group that has made every call of it but the last, over and over: it had fewer
// steps.
std::string fewer_steps(const CollectiveOperation& operation, const std::vector<int>& finished) {
  const FiberGroup& group = *operation.group();
  if (finished.empty() || operation.sequence() == 0) return {};
  const CallRecord& last = group.last_matched_record();
  const bool repeats = same_call(last, operation.record()) &&
                       last.site.line == operation.record().site.line &&
                       std::string_view(last.site.file) == operation.record().site.file;
  if (!repeats) return {};
  return "; step counts differ: it has made " + std::to_string(operation.sequence()) +
         " calls of this group, the others " + std::to_string(operation.sequence() + 1);
}

bool contains(const FiberGroup& outer, const FiberGroup& inner) {
  const std::vector<int> all = outer.all_world_ranks();
  const std::vector<int> some = inner.all_world_ranks();
  return all.size() > some.size() &&
         std::includes(all.begin(), all.end(), some.begin(), some.end());
}

constexpr const char* kOneGroup = "use the same communicator on all ranks that take part";

class WaitGraph {
 public:
  WaitGraph(const Engine& engine, const std::deque<FiberGroup>& groups)
      : engine_(engine), groups_(groups) {
    for (const FiberGroup& group : groups) {
      for (const FiberOperation* operation : group.open_operations()) {
        if (!operation->resolved()) open_.push_back(operation);
      }
    }
  }

  // Follows a waiting rank to the root of its trouble: a rank that has finished, or a cycle.
  Diagnosis explain(Time time) const {
    int rank = 0;
    while (rank < engine_.num_ranks() && engine_.rank(rank).blocked_on() == nullptr) ++rank;
    std::vector<int> path;
    std::vector<const FiberOperation*> waits;
    while (true) {
      const std::vector<const FiberOperation*> way = trace_back(*awaited_by(engine_, rank));
      const FiberOperation& operation = *way.back();
      if (operation.missing().empty()) return explain_stream_cycle(way, time);
      const auto seen = std::find(path.begin(), path.end(), rank);
      if (seen != path.end()) {
        const auto first = static_cast<std::size_t>(seen - path.begin());
        return explain_cycle({path.begin() + static_cast<std::ptrdiff_t>(first), path.end()},
                             {waits.begin() + static_cast<std::ptrdiff_t>(first), waits.end()},
                             time);
      }
      path.push_back(rank);
      waits.push_back(&operation);
      const std::vector<int> missing = operation.group()->world_ranks(operation.missing());
      for (const int absent : missing) {
        if (engine_.rank(absent).finished()) return explain_absence(operation, missing, time);
      }
      rank = missing.front();
    }
  }

 private:
  // The way from an operation to the one it stands behind, and so on, down to one that misses
  // members, or that is on the way already: then operations wait for each other.
  std::vector<const FiberOperation*> trace_back(const FiberOperation& operation) const {
    std::vector<const FiberOperation*> way = {&operation};
    while (way.back()->missing().empty()) {
      const auto prior = std::find_if(open_.begin(), open_.end(), [&](const FiberOperation* other) {
        return other->is_followed_by(*way.back());
      });
      if (prior == open_.end()) break;
      const bool seen = std::find(way.begin(), way.end(), *prior) != way.end();
      way.push_back(*prior);
      if (seen) break;
    }
    return way;
  }

  // Posted by everyone, but each behind the other on some rank's stream.
  static Diagnosis explain_stream_cycle(const std::vector<const FiberOperation*>& way, Time time) {
    const auto first = std::find(way.begin(), way.end(), way.back());
    Diagnosis diagnosis = begin_report(*way.back(), "DEADLOCK", time);
    diagnosis.summary = "operations wait for each other on their ranks' streams";
    for (auto operation = first; std::next(operation) != way.end(); ++operation) {
      const FiberOperation& behind = **operation;
      const std::vector<int> ranks = behind.group()->world_ranks(behind.arrived());
      diagnosis.cycle.push_back(behind.record().describe() + " (ranks " + format_ranks(ranks) +
                                ") is posted behind " +
                                (*std::next(operation))->record().describe());
      diagnosis.sides.push_back(behind.record().side_of(ranks));
    }
    diagnosis.hint =
        "a communicator runs one operation at a time: post opposite transfers in one batch "
        "(ncclGroupStart/End)";
    return diagnosis;
  }

  // A member that has made a call too many waits alone; one that has left a call out is waited for.
  // The fewer come first; of two members, the one that is missed.
  void add_sides(Diagnosis& diagnosis, const FiberOperation& operation,
                 const std::vector<int>& missing) const {
    diagnosis.sides = missing_sides(engine_, missing);
    DiagnosisSide waiting = waiting_side(operation);
    const bool are_fewer = waiting.ranks.size() < missing.size();
    diagnosis.sides.insert(are_fewer ? diagnosis.sides.begin() : diagnosis.sides.end(),
                           std::move(waiting));
  }

  Diagnosis explain_absence(const FiberOperation& operation, const std::vector<int>& missing,
                            Time time) const {
    const bool collective = dynamic_cast<const CollectiveOperation*>(&operation) != nullptr;
    if (std::optional<Diagnosis> wrong = explain_left_group(operation, missing, time)) {
      return *std::move(wrong);
    }
    const bool forms_groups = makes_groups(operation.record().name);
    Diagnosis diagnosis = begin_report(operation,
                                       forms_groups ? "GROUP_CREATE"
                                       : collective ? "COLL_MISSING"
                                                    : "P2P_UNMATCHED",
                                       time);
    diagnosis.summary = operation.record().describe() + " waits for " +
                        (missing.size() == 1 ? "rank " : "ranks ") + format_ranks(missing) +
                        ", which will never call it";
    if (collective && !forms_groups) {
      std::vector<int> finished;
      for (const int rank : missing) {
        if (engine_.rank(rank).finished()) finished.push_back(rank);
      }
      diagnosis.summary +=
          fewer_steps(static_cast<const CollectiveOperation&>(operation), finished);
    }
    add_sides(diagnosis, operation, missing);
    diagnosis.hint =
        forms_groups ? "every member of a group must call split, even if it joins no part"
        : collective ? "every member must make every call of the group, even with empty data"
                     : "every send needs a recv on its peer, in the same order";
    if (collective && operation.group()->size() == 2) {
      diagnosis.hint += "; of two members either may be wrong, with a call too many or too few";
    }
    return diagnosis;
  }

  // All missing members have ended with the awaited call in a group within this one. Waiting
  // members have not: else it is one call more.
  std::optional<Diagnosis> explain_left_group(const FiberOperation& operation,
                                              const std::vector<int>& missing, Time time) const {
    const FiberGroup& wide = *operation.group();
    if (operation.is_transfer()) return std::nullopt;
    std::vector<const FiberGroup*> narrow;
    std::vector<int> left;
    for (const FiberGroup& group : groups_) {
      const std::vector<int> ranks = group.all_world_ranks();
      if (group.last_matched().empty() || !contains(wide, group)) continue;
      if (!same_call(group.last_matched_record(), operation.record())) continue;
      const bool gone = std::all_of(ranks.begin(), ranks.end(),
                                    [&](int rank) { return engine_.rank(rank).finished(); });
      if (!gone) return std::nullopt;
      narrow.push_back(&group);
      left.insert(left.end(), ranks.begin(), ranks.end());
    }
    std::sort(left.begin(), left.end());
    if (narrow.empty() || left != missing) return std::nullopt;
    const std::string& name = narrow.front()->name();
    const CallRecord& call = narrow.front()->last_matched_record();
    Diagnosis diagnosis = begin_report(operation, "COLL_GROUP", time);
    diagnosis.summary =
        "ranks make the same call in different groups, " + wide.name() + " and " + name;
    diagnosis.sides = {
        {.ranks = left,
         .action = call.describe() + " in group " + name + " (ranks " +
                   format_ranks(narrow.front()->all_world_ranks()) + "), and have finished",
         .site = call.site},
        {.ranks = wide.world_ranks(operation.arrived()),
         .action = operation.record().describe() + " in group " + wide.name() + " (ranks " +
                   format_ranks(wide.all_world_ranks()) + ")",
         .site = operation.record().site}};
    diagnosis.hint = kOneGroup;
    return diagnosis;
  }

  // The same call in two groups, of which one holds the other: a rank has taken the wrong one.
  std::optional<Diagnosis> explain_wrong_group(const std::vector<const FiberOperation*>& waits,
                                               Time time) const {
    const FiberOperation* wide = waits.front();
    const FiberOperation* narrow = waits.front();
    for (const FiberOperation* operation : waits) {
      if (dynamic_cast<const CollectiveOperation*>(operation) == nullptr ||
          !same_call(operation->record(), waits.front()->record())) {
        return std::nullopt;
      }
      if (operation->group()->size() > wide->group()->size()) wide = operation;
      if (operation->group()->size() < narrow->group()->size()) narrow = operation;
    }
    if (!contains(*wide->group(), *narrow->group())) return std::nullopt;
    Diagnosis diagnosis = begin_report(*wide, "COLL_GROUP", time);
    diagnosis.summary = "ranks make the same call in different groups, " + wide->group()->name() +
                        " and " + narrow->group()->name();
    std::map<std::string, DiagnosisSide> by_group;
    for (int rank = 0; rank < engine_.num_ranks(); ++rank) {
      const FiberOperation* const mine = awaited_by(engine_, rank);
      if (mine == nullptr || !same_call(mine->record(), wide->record())) continue;
      DiagnosisSide& side = by_group[mine->group()->name()];
      if (side.ranks.empty()) {
        side.action = mine->record().describe() + " in group " + mine->group()->name() +
                      " (ranks " + format_ranks(mine->group()->all_world_ranks()) + ")";
        side.site = mine->record().site;
      }
      side.ranks.push_back(rank);
    }
    for (auto& [_, side] : by_group) diagnosis.sides.push_back(std::move(side));
    sort_sides(diagnosis);
    diagnosis.hint = kOneGroup;
    return diagnosis;
  }

  // The place in a cycle of the call that fewest members have made, and more have not: a rank that
  // is alone where all others agree has most likely erred. 0 if there is none.
  static std::ptrdiff_t loneliest(const std::vector<const FiberOperation*>& waits) {
    std::ptrdiff_t place = 0;
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const std::size_t arrived = waits[i]->arrived().size();
      if (arrived >= fewest || arrived >= waits[i]->missing().size()) continue;
      fewest = arrived;
      place = static_cast<std::ptrdiff_t>(i);
    }
    return place;
  }

  Diagnosis explain_cycle(std::vector<int> ranks, std::vector<const FiberOperation*> waits,
                          Time time) const {
    const std::ptrdiff_t first = loneliest(waits);
    std::rotate(ranks.begin(), ranks.begin() + first, ranks.end());
    std::rotate(waits.begin(), waits.begin() + first, waits.end());
    if (std::optional<Diagnosis> wrong = explain_wrong_group(waits, time)) return *std::move(wrong);
    Diagnosis diagnosis = begin_report(*waits.front(), "DEADLOCK", time);
    diagnosis.summary =
        ranks.size() == 1
            ? "rank " + std::to_string(ranks.front()) + " waits for what it would itself do later"
            : std::to_string(ranks.size()) + " ranks wait for each other in a cycle";
    const std::vector<const FiberOperation*> held_up = causes_by_rank();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const CallRecord& call = awaited_by(engine_, ranks[i])->record();
      diagnosis.cycle.push_back(link_of(call, *waits[i], held_up));
      diagnosis.sides.push_back(call.side_of({ranks[i]}));
    }
    diagnosis.hint = hint_of(waits);
    return diagnosis;
  }

  // The operation that holds up each rank; null: it does not wait.
  std::vector<const FiberOperation*> causes_by_rank() const {
    std::vector<const FiberOperation*> causes;
    for (int rank = 0; rank < engine_.num_ranks(); ++rank) {
      const FiberOperation* const operation = awaited_by(engine_, rank);
      causes.push_back(operation == nullptr ? nullptr : trace_back(*operation).back());
    }
    return causes;
  }

  // "ranks 0-4 wait in barrier of group world for rank 8 to call its part of it (#3)".
  static std::string link_of(const CallRecord& call, const FiberOperation& operation,
                             const std::vector<const FiberOperation*>& causes) {
    std::vector<int> waiting;
    for (std::size_t rank = 0; rank < causes.size(); ++rank) {
      if (causes[rank] == &operation) waiting.push_back(static_cast<int>(rank));
    }
    const std::vector<int> missing = operation.group()->world_ranks(operation.missing());
    const bool one = missing.size() == 1;
    return (waiting.size() == 1 ? "rank " : "ranks ") + format_ranks(waiting) +
           (waiting.size() == 1 ? " waits in " : " wait in ") + call.describe() + " of group " +
           operation.group()->name() + " for " + (one ? "rank " : "ranks ") +
           format_ranks(missing) + " to call " + (one ? "its" : "their") + " part of " +
           operation.record().describe() + " (#" + std::to_string(operation.sequence()) + ")";
  }

  // A batch helps where all wait for messages only.
  static std::string hint_of(const std::vector<const FiberOperation*>& waits) {
    bool messages = true;
    bool collectives = true;
    bool sends = false;
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
    for (const FiberOperation* operation : waits) {
      const CallRecord& call = operation->record();
      messages = messages && operation->is_transfer();
      collectives = collectives && !operation->is_transfer();
      if (!operation->is_transfer()) continue;
      sends = sends || std::string_view(call.name) == "send";
      bytes = std::min(bytes, call.count * size_of(call.dtype));
    }
    if (collectives) return "make all ranks use their groups in the same order";
    if (!messages) {
      return "a message crosses a collective: both of its ends must come before it, or both after";
    }
    const std::string batch =
        "post opposite sends and receives in one batch (ncclGroupStart/End), or let one side ";
    if (!sends) return batch + "send first";
    return batch + "receive first; messages of " + std::to_string(bytes) +
           " bytes pass only if the network buffers that many";
  }

  const Engine& engine_;
  const std::deque<FiberGroup>& groups_;
  std::vector<const FiberOperation*> open_;
};

}  // namespace

std::vector<DiagnosisSide> waiting_sides(const Engine& engine) {
  SideTable by_activity;
  for (int rank = 0; rank < engine.num_ranks(); ++rank) {
    if (awaited_by(engine, rank) == nullptr) continue;
    CallSite site;
    const std::string action = activity(engine, rank, site);
    by_activity.add(rank, action, site);
  }
  std::vector<DiagnosisSide> sides;
  by_activity.append_to(sides);
  return sides;
}

Diagnosis explain_stall(const Engine& engine, const std::deque<FiberGroup>& groups,
                        const Mailbox& mailbox) {
  Time time;
  for (int rank = 0; rank < engine.num_ranks(); ++rank) time = max(time, engine.rank(rank).now());
  if (std::optional<Diagnosis> mismatch = find_mismatch(groups, time)) return *std::move(mismatch);
  if (std::optional<Diagnosis> tags = mailbox.tag_mismatch()) {
    tags->time = time;
    return *std::move(tags);
  }
  return WaitGraph(engine, groups).explain(time);
}

}  // namespace shardsim
