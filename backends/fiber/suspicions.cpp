#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "backends/call.hpp"
#include "backends/fiber/fiber_group.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/stall_parts.hpp"

// Guesses who is to blame for a run that stands still. Each is a change of the calls of one rank.
// Whether the run would end well with it is for who can make the run again.
namespace shardsim {

namespace {

// A member that is alone, or nearly, may be to blame for all.
constexpr std::size_t kFewMembers = 3;

// The oldest operation of a group that not all members have joined with the same call.
struct StuckOperation {
  const CollectiveOperation* operation = nullptr;
  std::vector<int> arrived;  // World ranks.
  std::vector<int> missing;
};

std::vector<StuckOperation> stuck_operations(const std::deque<FiberGroup>& groups) {
  std::vector<StuckOperation> stuck;
  for (const FiberGroup& group : groups) {
    const CollectiveOperation* oldest = nullptr;
    for (const FiberOperation* operation : group.open_operations()) {
      const auto* const collective = dynamic_cast<const CollectiveOperation*>(operation);
      if (collective == nullptr || collective->resolved() || collective->complete()) continue;
      if (oldest == nullptr || collective->sequence() < oldest->sequence()) oldest = collective;
    }
    if (oldest == nullptr) continue;
    const std::vector<int> missing = group.world_ranks(oldest->missing());
    stuck.push_back({oldest, group.world_ranks(oldest->arrived()), missing});
  }
  return stuck;
}

CallRepair repair_of(CallRepair::Kind kind, int rank, const StuckOperation& stuck) {
  return {.kind = kind,
          .rank = rank,
          .group = stuck.operation->group()->id(),
          .sequence = stuck.operation->sequence()};
}

bool forms_groups(const StuckOperation& stuck) {
  return makes_groups(stuck.operation->record().name);
}

const char* code_of(const StuckOperation& stuck) {
  return forms_groups(stuck) ? "GROUP_CREATE" : "COLL_MISSING";
}

// Puts the rank alone in first place.
void put_first(Diagnosis& diagnosis, int rank) {
  std::vector<DiagnosisSide>& sides = diagnosis.sides;
  const auto has = [&](const DiagnosisSide& side) {
    return std::ranges::find(side.ranks, rank) != side.ranks.end();
  };
  const auto found = std::ranges::find_if(sides, has);
  if (found == sides.end()) return;
  DiagnosisSide mine = *found;
  mine.ranks = {rank};
  std::erase(found->ranks, rank);
  if (found->ranks.empty()) sides.erase(found);
  sides.insert(sides.begin(), std::move(mine));
}

class Guesses {
 public:
  Guesses(const Engine& engine, std::vector<StuckOperation> stuck, const Diagnosis& found)
      : engine_(engine), stuck_(std::move(stuck)), found_(found), time_(found.time) {}

  std::vector<Suspicion> all() {
    for (const StuckOperation& stuck : stuck_) {
      stuck.operation->disagreements().empty() ? guess_absence(stuck) : guess_mismatch(stuck);
    }
    std::erase_if(stuck_, [](const StuckOperation& stuck) { return forms_groups(stuck); });
    for (const StuckOperation& made : stuck_) {
      for (const StuckOperation& missed : stuck_) guess_other_group(made, missed);
    }
    return std::move(guesses_);
  }

 private:
  void guess_mismatch(const StuckOperation& stuck) {
    if (forms_groups(stuck)) return;
    const Diagnosis diagnosis = explain_mismatch(*stuck.operation, time_);
    for (const DiagnosisSide& side : diagnosis.sides) {
      if (side.ranks.size() > kFewMembers) continue;
      for (const int rank : side.ranks) {
        for (const auto kind :
             {CallRepair::Kind::leave_out, CallRepair::Kind::excuse, CallRepair::Kind::accept}) {
          Suspicion guess{.rank = rank, .repairs = {repair_of(kind, rank, stuck)}};
          guess.diagnosis = diagnosis;
          put_first(guess.diagnosis, rank);
          guesses_.push_back(std::move(guess));
        }
      }
    }
  }

  void guess_absence(const StuckOperation& stuck) {
    // A later call of the others may have met the extra one: then the others have arrived, too, and
    // the rank stands out by its part in the cycle alone.
    const bool few = stuck.arrived.size() <= kFewMembers;
    for (const int rank : stuck.arrived) {
      if (few || is_among_few(rank)) add_extra(stuck, rank);
    }
    if (stuck.missing.size() <= kFewMembers) {
      for (const int rank : stuck.missing) add_missing(stuck, rank);
    }
  }

  // Whether the report names the rank, with few others.
  [[nodiscard]] bool is_among_few(int rank) const {
    return std::ranges::any_of(found_.sides, [rank](const DiagnosisSide& side) {
      return side.ranks.size() <= kFewMembers &&
             std::ranges::find(side.ranks, rank) != side.ranks.end();
    });
  }

  void add_extra(const StuckOperation& stuck, int rank) {
    add(stuck, rank, CallRepair::Kind::leave_out,
        "rank " + std::to_string(rank) + " calls " + stuck.operation->record().describe() +
            ", which ranks " + format_ranks(stuck.missing) +
            " never call: without it the run ends well",
        "every member must make every call of the group, and no call more");
  }

  void add_missing(const StuckOperation& stuck, int rank) {
    add(stuck, rank, CallRepair::Kind::excuse,
        stuck.operation->record().describe() + " waits for rank " + std::to_string(rank) +
            ", which does not call it here: without this rank it ends well",
        "every member must make every call of the group, even with empty data");
  }

  // `rank` alone is to blame for a call that some make and others do not.
  void add(const StuckOperation& stuck, int rank, CallRepair::Kind mended, std::string summary,
           const char* hint) {
    Diagnosis diagnosis = begin_report(*stuck.operation, code_of(stuck), time_);
    diagnosis.summary = std::move(summary);
    diagnosis.sides = missing_sides(engine_, stuck.missing);
    diagnosis.sides.push_back(waiting_side(*stuck.operation));
    put_first(diagnosis, rank);
    diagnosis.hint = hint;
    guesses_.push_back({.rank = rank,
                        .repairs = {repair_of(mended, rank, stuck)},
                        .diagnosis = std::move(diagnosis)});
  }

  // A rank has made a call in one group that it was to make in the other.
  void guess_other_group(const StuckOperation& made, const StuckOperation& missed) {
    if (made.operation == missed.operation || made.arrived.size() > kFewMembers) return;
    for (const int rank : made.arrived) {
      if (std::ranges::find(missed.missing, rank) == missed.missing.end()) continue;
      Diagnosis diagnosis = begin_report(*missed.operation, "COLL_GROUP", time_);
      const FiberGroup& wrong = *made.operation->group();
      const FiberGroup& right = *missed.operation->group();
      diagnosis.summary = "rank " + std::to_string(rank) + " makes a call in group " +
                          wrong.name() + " where the others make one in group " + right.name();
      diagnosis.sides = {
          {.ranks = {rank},
           .action = made.operation->record().describe() + " in group " + wrong.name() +
                     " (ranks " + format_ranks(wrong.all_world_ranks()) + ")",
           .site = made.operation->record().site},
          {.ranks = missed.arrived,
           .action = missed.operation->record().describe() + " in group " + right.name() +
                     " (ranks " + format_ranks(right.all_world_ranks()) + ")",
           .site = missed.operation->record().site}};
      diagnosis.hint = "use the same communicator on all ranks that take part";
      guesses_.push_back({.rank = rank,
                          .repairs = {repair_of(CallRepair::Kind::leave_out, rank, made),
                                      repair_of(CallRepair::Kind::excuse, rank, missed)},
                          .diagnosis = std::move(diagnosis)});
    }
  }

  const Engine& engine_;
  std::vector<StuckOperation> stuck_;
  const Diagnosis& found_;
  Time time_;
  std::vector<Suspicion> guesses_;
};

// Whether the report has one rank against several of one mind, or two that cannot be told apart.
bool is_decided(const Diagnosis& found) {
  const bool of_collective = found.code.rfind("COLL_", 0) == 0;
  if (!of_collective) return found.code != "DEADLOCK" && found.code != "P2P_UNMATCHED";
  return found.sides.size() == 2 && found.sides[0].ranks.size() == 1 &&
         found.sides[1].ranks.size() > 1;
}

}  // namespace

std::vector<Suspicion> suspicions_of(const Engine& engine, const std::deque<FiberGroup>& groups,
                                     const Mailbox& mailbox, const Diagnosis& found) {
  if (is_decided(found)) return {};
  std::vector<Suspicion> all = Guesses(engine, stuck_operations(groups), found).all();
  std::ranges::move(guess_messages(engine, groups, mailbox, found.time), std::back_inserter(all));
  std::ranges::stable_sort(all, {}, [](const Suspicion& guess) { return guess.repairs.size(); });
  return all;
}

}  // namespace shardsim
