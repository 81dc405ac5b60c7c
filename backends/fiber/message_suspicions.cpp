#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/call.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/fiber/stall_parts.hpp"

// Guesses about messages of which one end is missing.
namespace shardsim {

namespace {

// A send or receive that has no counterpart. Ranks of the world.
struct LoneHalf {
  const FiberOperation* operation = nullptr;
  bool sends = false;
  int rank = 0;
  int peer = 0;
  int group_peer = 0;  // The peer as the call names it.
  CallRecord record;
  CallRepair repair;
};

CallRepair repair_of(int rank, std::uint64_t group, std::int64_t number) {
  return {
      .kind = CallRepair::Kind::leave_out_half, .rank = rank, .group = group, .sequence = number};
}

// The oldest of each rank to or from each peer.
std::vector<LoneHalf> lone_halves(const std::deque<FiberGroup>& groups, const Mailbox& mailbox) {
  std::vector<LoneHalf> halves;
  std::set<std::tuple<std::uint64_t, bool, int, int, int>> seen;
  const auto add = [&](const LoneHalf& half) {
    const bool fresh =
        seen.emplace(half.repair.group, half.sends, half.rank, half.peer, half.record.tag).second;
    if (fresh) halves.push_back(half);
  };
  for (const FiberGroup& group : groups) {
    for (const FiberOperation* operation : group.open_operations()) {
      const auto* const transfer = dynamic_cast<const TransferOperation*>(operation);
      if (transfer == nullptr || transfer->posted(true) == transfer->posted(false)) continue;
      const bool sends = transfer->posted(true);
      const int source = group.world_rank(transfer->source());
      const int destination = group.world_rank(transfer->destination());
      const int rank = sends ? source : destination;
      add({.operation = transfer,
           .sends = sends,
           .rank = rank,
           .peer = sends ? destination : source,
           .group_peer = sends ? transfer->destination() : transfer->source(),
           .record = transfer->side(sends),
           .repair = repair_of(rank, group.id(), transfer->number(sends))});
    }
  }
  for (const MessageHalf* half : mailbox.unmatched()) {
    if (half->has_status()) continue;  // Its program uses what it was told.
    const std::int64_t number = 2 * half->number() + (half->sends() ? 1 : 0);
    add({.operation = half,
         .sends = half->sends(),
         .rank = half->member(),
         .peer = half->peer(),
         .group_peer = half->peer(),
         .record = half->record(),
         .repair = repair_of(half->member(), CallRepair::kTagged, number)});
  }
  return halves;
}

bool is_open(const LoneHalf& half) { return half.peer == kAnySource; }

bool names(const LoneHalf& half, int rank) { return is_open(half) || half.peer == rank; }

// "rank 2 sends to rank 3".
std::string text_of(const LoneHalf& half) {
  return "rank " + std::to_string(half.rank) + (half.sends ? " sends to " : " receives from ") +
         (is_open(half) ? "any" : "rank " + std::to_string(half.peer));
}

// One rank has named the wrong peer: it sends to another what this one waits for.
std::optional<Suspicion> guess_peer(const LoneHalf& wrong, const LoneHalf& other, Time time) {
  const bool crossed = wrong.repair.group == other.repair.group && wrong.sends != other.sends &&
                       names(other, wrong.rank) && other.rank != wrong.peer;
  const bool tagged = other.record.tag == kAnyTag || wrong.record.tag == other.record.tag;
  if (!crossed || !tagged || is_open(wrong)) return std::nullopt;
  if (!same_message(wrong.record, other.record)) return std::nullopt;
  Diagnosis diagnosis = begin_report(*wrong.operation, "P2P_UNMATCHED", time);
  diagnosis.summary = text_of(wrong) + ", which has no counterpart, and " + text_of(other) +
                      ": with rank " + std::to_string(other.rank) + " as peer the run ends well";
  diagnosis.sides = {wrong.record.side_of({wrong.rank}), other.record.side_of({other.rank})};
  diagnosis.hint = "a peer is a rank in the group, not in the world";
  Suspicion guess{.rank = wrong.rank, .repairs = {wrong.repair}, .diagnosis = std::move(diagnosis)};
  guess.repairs.front().kind = CallRepair::Kind::redirect;
  // The other's rank, as the group numbers it.
  const FiberGroup& group = *wrong.operation->group();
  for (int member = 0; member < group.size(); ++member) {
    if (group.world_rank(member) == other.rank) guess.repairs.front().peer = member;
  }
  return guess;
}

// Either this call is one too many, or its peer has left one out.
Suspicion guess_lone(const Engine& engine, const LoneHalf& half, Time time) {
  Diagnosis diagnosis = begin_report(*half.operation, "P2P_UNMATCHED", time);
  diagnosis.summary =
      text_of(half) + ", which has no counterpart: without this call the run ends well";
  diagnosis.sides = missing_sides(engine, {half.peer});
  diagnosis.sides.push_back(half.record.side_of({half.rank}));
  diagnosis.hint = "every send needs a recv on its peer, in the same order";
  return {.rank = half.rank, .repairs = {half.repair}, .diagnosis = std::move(diagnosis)};
}

// Two ranks name each other, and yet it is no message.
std::optional<Suspicion> guess_both(const LoneHalf& one, const LoneHalf& other, Time time) {
  if (!names(one, other.rank) || !names(other, one.rank) || one.rank >= other.rank) {
    return std::nullopt;
  }
  const bool tags = one.sends != other.sends && one.record.tag != other.record.tag &&
                    one.repair.group == other.repair.group;
  Diagnosis diagnosis = begin_report(*one.operation, tags ? "P2P_TAG" : "P2P_UNMATCHED", time);
  diagnosis.summary = text_of(one) + ", and " + text_of(other) + ": without both the run ends well";
  diagnosis.sides = {one.record.side_of({one.rank}), other.record.side_of({other.rank})};
  diagnosis.hint = tags                       ? "send and receive with the same tag"
                   : one.sends == other.sends ? "one of the two must send and the other receive"
                                              : "use the same communicator on both ranks";
  return Suspicion{
      .rank = one.rank, .repairs = {one.repair, other.repair}, .diagnosis = std::move(diagnosis)};
}

}  // namespace

std::vector<Suspicion> guess_messages(const Engine& engine, const std::deque<FiberGroup>& groups,
                                      const Mailbox& mailbox, Time time) {
  // More lone halves than this are no single bug.
  constexpr std::size_t kMostHalves = 16;
  std::vector<LoneHalf> halves = lone_halves(groups, mailbox);
  if (halves.size() > kMostHalves) return {};
  std::vector<Suspicion> guesses;
  const auto add = [&](std::optional<Suspicion> guess) {
    if (guess) guesses.push_back(*std::move(guess));
  };
  for (const LoneHalf& wrong : halves) {
    for (const LoneHalf& other : halves) add(guess_peer(wrong, other, time));
  }
  for (const LoneHalf& half : halves) {
    if (!is_open(half)) guesses.push_back(guess_lone(engine, half, time));
  }
  for (const LoneHalf& one : halves) {
    for (const LoneHalf& other : halves) add(guess_both(one, other, time));
  }
  return guesses;
}

}  // namespace shardsim
