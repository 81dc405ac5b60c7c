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

bool is_reported_mismatch(const FailureEvent& event) {
  return event.kind == FailureKind::report && event.failure && event.failure->diagnosis &&
         event.failure->exit_code == ExitCode::communication && !is_timeout(event);
}

bool is_of_its_own(const FailureEvent& event) {
  return event.kind == FailureKind::report && event.failure &&
         event.failure->exit_code != ExitCode::communication &&
         event.failure->exit_code != ExitCode::backend_failed;
}

// The launching side reports for no rank.
bool is_of_launching_side(const FailureEvent& event) {
  return is_of_its_own(event) && event.ranks.empty();
}

bool is_backend_error(const FailureEvent& event) {
  return event.kind == FailureKind::report && event.failure &&
         event.failure->exit_code == ExitCode::backend_failed;
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
  std::map<std::string, std::vector<int>> by_activity;
  for (const RankActivity& rank : ranks) {
    if (belongs(rank.rank)) by_activity[describe(rank)].push_back(rank.rank);
  }
  for (auto& [activity, who] : by_activity) {
    diagnosis.sides.push_back({.ranks = std::move(who), .action = activity});
  }
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
  Diagnosis diagnosis;
  diagnosis.code = "RANK_DIED";
  diagnosis.summary =
      whole_name(rank) + " has died: " +
      (death.detail.empty() ? "its connection ended without a farewell" : "it " + death.detail);
  diagnosis.sides.push_back({.ranks = {dead}, .action = last_known_of(rank)});
  add_activities(diagnosis, ranks, [dead](int other) { return other != dead; });
  diagnosis.hint =
      "its own output comes before this; signal 9 that nobody sent is often a machine that has run "
      "out of memory";
  return RunFailure::from(std::move(diagnosis), ExitCode::backend_failed);
}

RunFailure explain_silence(std::span<const FailureEvent> events, const FailureEvent& first,
                           std::span<const RankActivity> ranks) {
  const std::vector<int> silent = ranks_of(events, FailureKind::silent);
  Diagnosis diagnosis;
  diagnosis.code = "RANK_SILENT";
  const std::string who = silent.size() == 1
                              ? whole_name(ranks[static_cast<std::size_t>(silent.front())])
                              : subject(silent);
  diagnosis.summary = fmt::format("{} {} given no sign of life for {:.3g} s", who,
                                  silent.size() == 1 ? "has" : "have", first.seconds);
  const auto is_silent = [&](int rank) {
    return std::binary_search(silent.begin(), silent.end(), rank);
  };
  add_activities(diagnosis, ranks, is_silent, last_known_of);
  add_activities(diagnosis, ranks, [&](int rank) { return !is_silent(rank); });
  diagnosis.hint =
      "a process that computes gives signs of life, one that is stopped (SIGSTOP, a debugger) or "
      "whose machine hangs does not";
  return RunFailure::from(std::move(diagnosis), ExitCode::backend_failed);
}

RunFailure explain_absence(const FailureEvent& missing, std::span<const RankActivity> ranks) {
  Diagnosis diagnosis;
  diagnosis.code = "RENDEZVOUS_MISSING";
  diagnosis.summary = fmt::format("{} of {} did not arrive within {:.3g} s", subject(missing.ranks),
                                  ranks.size(), missing.seconds);
  diagnosis.sides.push_back({.ranks = missing.ranks, .action = "did not arrive"});
  add_activities(diagnosis, ranks,
                 [&](int rank) { return ranks[static_cast<std::size_t>(rank)].arrived; });
  diagnosis.hint = "look whether they were started, with the same SHARDSIM_RENDEZVOUS and token";
  return RunFailure::from(std::move(diagnosis), ExitCode::backend_failed);
}

RunFailure explain_stall(const FailureEvent& stall, std::span<const RankActivity> ranks) {
  const bool is_one = stall.ranks.size() == 1;
  const auto is_absent = [&](int rank) {
    return std::binary_search(stall.ranks.begin(), stall.ranks.end(), rank);
  };
  Diagnosis diagnosis;
  diagnosis.code = "TIMEOUT";
  diagnosis.summary = fmt::format(
      "{} of {} {} not come to \"{}\", where all others wait: {} alive, but {} made no call for "
      "{:.3g} s",
      subject(stall.ranks), ranks.size(), is_one ? "has" : "have", stall.detail,
      is_one ? "it is" : "they are", is_one ? "has" : "have", stall.seconds);
  add_activities(diagnosis, ranks, is_absent);
  DiagnosisSide waiting{.action = "waits at \"" + stall.detail + "\""};
  for (const RankActivity& rank : ranks) {
    if (!is_absent(rank.rank)) waiting.ranks.push_back(rank.rank);
  }
  diagnosis.sides.push_back(std::move(waiting));
  diagnosis.hint =
      "look what it does after its last call; if it computes for so long, give a longer --timeout";
  return RunFailure::from(std::move(diagnosis), ExitCode::communication);
}

// All that wait in vain, in one report; the earliest says where.
RunFailure combine_timeouts(std::span<const FailureEvent> events, const FailureEvent& first,
                            std::span<const RankActivity> ranks) {
  std::set<int> waiting;
  std::map<std::string, DiagnosisSide> by_action;
  for (const FailureEvent& event : events) {
    if (!is_timeout(event) || event.ranks.empty()) continue;
    const int rank = event.ranks.front();
    if (!waiting.insert(rank).second) continue;
    // A timeout's first side is the rank that reports it.
    const bool has_side = event.failure->diagnosis && !event.failure->diagnosis->sides.empty();
    DiagnosisSide own;
    if (has_side) own = event.failure->diagnosis->sides.front();
    if (!has_side) own.action = event.failure->message;
    DiagnosisSide& side = by_action[own.action];
    side.action = own.action;
    if (side.ranks.empty()) side.site = own.site;
    side.ranks.push_back(rank);
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
  std::vector<DiagnosisSide> waits;
  for (auto& [_, side] : by_action) {
    std::sort(side.ranks.begin(), side.ranks.end());
    waits.push_back(std::move(side));
  }
  std::sort(waits.begin(), waits.end(),
            [](const DiagnosisSide& a, const DiagnosisSide& b) { return a.ranks < b.ranks; });
  diagnosis.sides.insert(diagnosis.sides.end(), waits.begin(), waits.end());
  return RunFailure::from(std::move(diagnosis), ExitCode::communication);
}

}  // namespace

bool is_timeout(const FailureEvent& event) {
  if (event.kind != FailureKind::report || !event.failure) return false;
  if (event.failure->exit_code != ExitCode::communication) return false;
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
