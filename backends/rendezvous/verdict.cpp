#include "backends/rendezvous/verdict.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backends/call.hpp"

namespace shardsim {

namespace {

using FailureKind = FailureEvent::Kind;

bool reports(const FailureEvent& event, ExitCode exit_code) {
  return event.kind == FailureKind::report && event.failure &&
         event.failure->exit_code == exit_code;
}

bool is_reported_mismatch(const FailureEvent& event) {
  return reports(event, ExitCode::communication) && event.failure->diagnosis && !is_timeout(event);
}

bool is_backend_error(const FailureEvent& event) {
  return reports(event, ExitCode::backend_failed);
}

bool is_of_its_own(const FailureEvent& event) {
  return event.kind == FailureKind::report && event.failure &&
         !reports(event, ExitCode::communication) && !is_backend_error(event);
}

// The launching side reports for no rank.
bool is_of_launching_side(const FailureEvent& event) {
  return is_of_its_own(event) && event.ranks.empty();
}

std::string subject(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(ranks);
}

// "rank 3 (process 4711 on node7)".
std::string whole_name(const RankActivity& rank) {
  std::string text = "rank " + std::to_string(rank.rank);
  if (rank.pid > 0) text += fmt::format(" (process {} on {})", rank.pid, rank.host);
  return text;
}

std::string activity_of(const RankActivity& rank) {
  if (!rank.arrived) return "has not arrived";
  if (rank.ended) return "has finished";
  if (rank.last_posted.empty()) {
    return rank.told ? "has called nothing yet" : "no call of it is known";
  }
  if (rank.last_posted == rank.last_ended) {
    return "has called nothing since " + rank.last_ended + ", which has ended";
  }
  return "last called " + rank.last_posted;
}

// Calls travel with signs of life: a rank's calls after its last sign are unknown.
std::string last_known_of(const RankActivity& rank) {
  if (!rank.arrived || rank.ended) return activity_of(rank);
  if (rank.last_posted.empty()) return "no call of it is known";
  const char* const state = rank.last_posted == rank.last_ended ? ", which had ended" : "";
  return "its last call that is known is " + rank.last_posted + state;
}

// The ranks for which `belongs` holds, by what they do.
void add_activities(Diagnosis& diagnosis, std::span<const RankActivity> ranks,
                    const std::function<bool(int)>& belongs,
                    std::string (*describe)(const RankActivity&) = activity_of) {
  SideTable by_activity;
  for (const RankActivity& rank : ranks) {
    if (belongs(rank.rank)) by_activity.add(rank.rank, describe(rank));
  }
  by_activity.append_to(diagnosis.sides);
}

// The ranks of all events of a kind, ascending.
std::vector<int> ranks_of(std::span<const FailureEvent> events, FailureKind kind) {
  std::set<int> ranks;
  for (const FailureEvent& event : events) {
    if (event.kind == kind) ranks.insert(event.ranks.begin(), event.ranks.end());
  }
  return {ranks.begin(), ranks.end()};
}

RunFailure explain_death(const FailureEvent& death, std::span<const RankActivity> ranks) {
  const int dead = death.ranks.front();
  const RankActivity& rank = ranks[static_cast<std::size_t>(dead)];
  Diagnosis diagnosis{
      .code = "RANK_DIED",
      .summary =
          whole_name(rank) + " has died: " +
          (death.detail.empty() ? "its connection closed unexpectedly" : "it " + death.detail),
      .sides = {{.ranks = {dead}, .action = last_known_of(rank)}},
      .hint =
          "its own output stands above; signal 9 often means that the machine ran out of memory"};
  add_activities(diagnosis, ranks, [dead](int other) { return other != dead; });
  return RunFailure::from(std::move(diagnosis), ExitCode::backend_failed);
}

RunFailure explain_silence(std::span<const FailureEvent> events, const FailureEvent& first,
                           std::span<const RankActivity> ranks) {
  const std::vector<int> silent = ranks_of(events, FailureKind::silent);
  const std::string who = silent.size() == 1
                              ? whole_name(ranks[static_cast<std::size_t>(silent.front())])
                              : subject(silent);
  Diagnosis diagnosis{.code = "RANK_SILENT",
                      .summary = fmt::format("{} {} sent no heartbeat for {:.3g} s", who,
                                             silent.size() == 1 ? "has" : "have", first.seconds),
                      .hint =
                          "a computing process sends heartbeats; a stopped one (SIGSTOP, a "
                          "debugger) or one on a hung machine does not"};
  const auto is_silent = [&](int rank) {
    return std::binary_search(silent.begin(), silent.end(), rank);
  };
  add_activities(diagnosis, ranks, is_silent, last_known_of);
  add_activities(diagnosis, ranks, [&](int rank) { return !is_silent(rank); });
  return RunFailure::from(std::move(diagnosis), ExitCode::backend_failed);
}

RunFailure explain_absence(const FailureEvent& missing, std::span<const RankActivity> ranks) {
  Diagnosis diagnosis{
      .code = "RENDEZVOUS_MISSING",
      .summary = fmt::format("{} of {} did not arrive within {:.3g} s", subject(missing.ranks),
                             ranks.size(), missing.seconds),
      .sides = {{.ranks = missing.ranks, .action = "did not arrive"}},
      .hint = "check that they were started with the same SHARDSIM_RENDEZVOUS and token"};
  add_activities(diagnosis, ranks,
                 [&](int rank) { return ranks[static_cast<std::size_t>(rank)].arrived; });
  return RunFailure::from(std::move(diagnosis), ExitCode::backend_failed);
}

RunFailure explain_stall(const FailureEvent& stall, std::span<const RankActivity> ranks) {
  const bool is_one = stall.ranks.size() == 1;
  const auto is_absent = [&](int rank) {
    return std::binary_search(stall.ranks.begin(), stall.ranks.end(), rank);
  };
  Diagnosis diagnosis{
      .code = "TIMEOUT",
      .summary = fmt::format(
          "{} of {} {} not come to \"{}\", where all others wait: {} alive, but {} made no call "
          "for {:.3g} s",
          subject(stall.ranks), ranks.size(), is_one ? "has" : "have", stall.detail,
          is_one ? "it is" : "they are", is_one ? "has" : "have", stall.seconds),
      .hint =
          "check what it does after its last call; if it computes that long, give a longer "
          "--timeout"};
  add_activities(diagnosis, ranks, is_absent);
  DiagnosisSide waiting{.action = "waits at \"" + stall.detail + "\""};
  for (const RankActivity& rank : ranks) {
    if (!is_absent(rank.rank)) waiting.ranks.push_back(rank.rank);
  }
  diagnosis.sides.push_back(std::move(waiting));
  return RunFailure::from(std::move(diagnosis), ExitCode::communication);
}

// All that wait in vain, in one report; the earliest says where.
RunFailure combine_timeouts(std::span<const FailureEvent> events, const FailureEvent& first,
                            std::span<const RankActivity> ranks) {
  std::set<int> waiting;
  SideTable waits;
  for (const FailureEvent& event : events) {
    if (!is_timeout(event) || event.ranks.empty()) continue;
    const int rank = event.ranks.front();
    if (!waiting.insert(rank).second) continue;
    // A timeout's first side is the rank that reports it.
    const bool has_side = event.failure->diagnosis && !event.failure->diagnosis->sides.empty();
    const DiagnosisSide own = has_side ? event.failure->diagnosis->sides.front()
                                       : DiagnosisSide{.action = event.failure->message};
    waits.add(rank, own.action, own.site);
  }
  Diagnosis diagnosis;
  if (first.failure->diagnosis) diagnosis = *first.failure->diagnosis;
  diagnosis.code = "TIMEOUT";
  const std::vector<int> who(waiting.begin(), waiting.end());
  if (who.size() > 1 || !first.failure->diagnosis) {
    diagnosis.summary = fmt::format("{} of {} {} in vain, and all processes are alive",
                                    subject(who), ranks.size(), who.size() == 1 ? "waits" : "wait");
  }
  if (diagnosis.hint.empty()) diagnosis.hint = first.failure->fix;
  diagnosis.sides.clear();
  // Ranks that have not answered come first: the likely culprits.
  add_activities(diagnosis, ranks, [&](int rank) { return waiting.count(rank) == 0; });
  const auto num_others = static_cast<std::ptrdiff_t>(diagnosis.sides.size());
  waits.append_to(diagnosis.sides);
  std::sort(diagnosis.sides.begin() + num_others, diagnosis.sides.end(),
            [](const DiagnosisSide& a, const DiagnosisSide& b) { return a.ranks < b.ranks; });
  return RunFailure::from(std::move(diagnosis), ExitCode::communication);
}

}  // namespace

bool is_timeout(const FailureEvent& event) {
  if (!reports(event, ExitCode::communication)) return false;
  return !event.failure->diagnosis || event.failure->diagnosis->code == "TIMEOUT";
}

RunFailure decide_failure(std::span<const FailureEvent> events, std::span<const RankActivity> ranks,
                          double grace_s) {
  const auto earliest = [&](const std::function<bool(const FailureEvent&)>& fits) {
    const FailureEvent* found = nullptr;
    for (const FailureEvent& event : events) {
      if (fits(event) && (found == nullptr || event.time_s < found->time_s)) found = &event;
    }
    return found;
  };
  const auto of_kind = [](FailureKind kind) {
    return [kind](const FailureEvent& event) { return event.kind == kind; };
  };
  if (const auto* const event = earliest(is_of_launching_side)) return *event->failure;
  if (const auto* const event = earliest(of_kind(FailureKind::mismatch))) return *event->failure;
  if (const auto* const event = earliest(is_reported_mismatch)) return *event->failure;
  if (const FailureEvent* const event = earliest(is_of_its_own)) return *event->failure;
  const FailureEvent* const report = earliest(of_kind(FailureKind::report));
  const auto died_in_time = [&](const FailureEvent& event) {
    return event.kind == FailureKind::died &&
           (report == nullptr || event.time_s <= report->time_s + grace_s);
  };
  if (const FailureEvent* const event = earliest(died_in_time)) return explain_death(*event, ranks);
  if (const FailureEvent* const event = earliest(of_kind(FailureKind::silent))) {
    return explain_silence(events, *event, ranks);
  }
  if (const FailureEvent* const event = earliest(of_kind(FailureKind::missing))) {
    return explain_absence(*event, ranks);
  }
  if (const FailureEvent* const event = earliest(is_backend_error)) return *event->failure;
  if (const FailureEvent* const event = earliest(is_timeout)) {
    return combine_timeouts(events, *event, ranks);
  }
  if (const auto* const event = earliest(of_kind(FailureKind::stalled))) {
    return explain_stall(*event, ranks);
  }
  return explain_death(*earliest(of_kind(FailureKind::died)), ranks);
}

}  // namespace shardsim
