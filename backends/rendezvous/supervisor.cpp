#include "backends/rendezvous/supervisor.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backends/rendezvous/launch_environment.hpp"

namespace shardsim {

namespace {

using FailureKind = FailureEvent::Kind;

}  // namespace

Supervisor::Supervisor(int world_size, std::string token, SupervisionTimes times, double now,
                       Send send, Close close)
    : token_(std::move(token)),
      times_(times),
      begin_s_(now),
      send_(std::move(send)),
      close_(std::move(close)),
      ranks_(static_cast<std::size_t>(world_size)),
      store_(world_size) {
  for (int rank = 0; rank < world_size; ++rank) rank_at(rank).activity.rank = rank;
}

// --- What connections say ----------------------------------------------------------------------

void Supervisor::on_message(int connection, RendezvousMessage&& message, double now) {
  const auto known = ranks_of_.find(connection);
  if (known != ranks_of_.end()) {
    Rank& rank = rank_at(known->second);
    rank.last_heard_s = now;
    hear(rank, std::move(message), now);
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&message)) {
    greet(connection, *hello, now);
  } else {
    close_(connection);
  }
}

std::optional<std::string> Supervisor::refusal_of(const Hello& hello) const {
  // First of all, and nothing else is told to who does not know it.
  if (!same_token(hello.token, token_)) return "the token is wrong";
  const auto size = static_cast<int>(ranks_.size());
  if (hello.world_size != size) {
    return fmt::format("it says there are {} ranks, but the run has {}", hello.world_size, size);
  }
  if (hello.rank < 0 || hello.rank >= size) {
    return fmt::format("it says it is rank {}, but the run has ranks 0 to {}", hello.rank,
                       size - 1);
  }
  const RankActivity& other = ranks_[static_cast<std::size_t>(hello.rank)].activity;
  if (other.arrived) {
    return fmt::format("rank {} is there already: process {} on {}", hello.rank, other.pid,
                       other.host);
  }
  if (phase_ != Phase::running) return "the run has ended";
  return std::nullopt;
}

void Supervisor::greet(int connection, const Hello& hello, double now) {
  if (const std::optional<std::string> reason = refusal_of(hello)) {
    send_(connection, Refused{*reason});
    close_(connection);
    return;
  }
  Rank& rank = rank_at(hello.rank);
  rank.activity.arrived = true;
  rank.activity.pid = hello.pid;
  rank.activity.host = hello.host;
  rank.connection = connection;
  rank.last_heard_s = now;
  rank.last_act_s = now;
  ranks_of_[connection] = hello.rank;
  send_(connection, Welcome{});
}

void Supervisor::hear(Rank& rank, RendezvousMessage&& message, double now) {
  const int number = rank.activity.rank;
  if (auto* beat = std::get_if<Beat>(&message)) {
    const bool has_acted = beat->last_posted != rank.activity.last_posted ||
                           beat->last_ended != rank.activity.last_ended;
    if (has_acted) rank.last_act_s = now;
    rank.activity.told = true;
    rank.activity.last_posted = std::move(beat->last_posted);
    rank.activity.last_ended = std::move(beat->last_ended);
    send_(rank.connection, Beat{});
  } else if (const auto* request = std::get_if<StoreRequest>(&message)) {
    rank.last_act_s = now;
    answer(store_.ask(number, *request, now));
  } else if (auto* call = std::get_if<CallFingerprint>(&message)) {
    if (phase_ != Phase::running) return;
    rank.last_act_s = now;
    const auto problem = fingerprints_.add(number, std::move(*call), now);
    if (!problem) return;
    rank.process_end = "sent " + *problem;
    on_lost(rank.connection, now);
  } else if (auto* report = std::get_if<FailureReport>(&message)) {
    hear_report(rank, std::move(*report), now);
  } else if (auto* flight = std::get_if<FlightNote>(&message)) {
    forming_.flight_records[number] = std::move(flight->flight);
    awaited_.erase(number);
  } else if (std::holds_alternative<End>(message)) {
    rank.activity.ended = true;
    rank.last_act_s = now;
    store_.forget(number);
    awaited_.erase(number);
    send_(rank.connection, End{});
  } else {
    rank.process_end = "sent what only the rendezvous may say";
    on_lost(rank.connection, now);
  }
}

void Supervisor::hear_report(Rank& rank, FailureReport&& report, double now) {
  forming_.flight_records[rank.activity.rank] = std::move(report.flight);
  awaited_.erase(rank.activity.rank);
  if (std::exchange(rank.reported, true)) return;
  note({.kind = FailureKind::report,
        .time_s = now,
        .ranks = {rank.activity.rank},
        .failure = std::move(report.failure)});
}

void Supervisor::answer(const std::vector<KeyStore::Answer>& answers) {
  for (const auto& [rank, reply] : answers) {
    const int connection = rank_at(rank).connection;
    if (connection >= 0) send_(connection, reply);
  }
}

void Supervisor::on_lost(int connection, double now) {
  const auto known = ranks_of_.find(connection);
  if (known == ranks_of_.end()) return;
  Rank& rank = rank_at(known->second);
  ranks_of_.erase(known);
  rank.connection = -1;
  close_(connection);
  store_.forget(rank.activity.rank);
  awaited_.erase(rank.activity.rank);
  if (rank.activity.ended || std::exchange(rank.reported, true)) return;
  note({.kind = FailureKind::died,
        .time_s = now,
        .ranks = {rank.activity.rank},
        .detail = rank.process_end});
}

void Supervisor::on_process_end(int rank, const std::string& description) {
  rank_at(rank).process_end = description;
  for (FailureEvent& event : events_) {
    if (event.kind == FailureKind::died && event.ranks.front() == rank) event.detail = description;
  }
}

void Supervisor::on_given_up(const RunFailure& failure, double now) {
  note({.kind = FailureKind::report, .time_s = now, .failure = failure});
}

void Supervisor::note(FailureEvent event) {
  if (phase_ == Phase::running) events_.push_back(std::move(event));
}

// --- What time brings to light -----------------------------------------------------------------

void Supervisor::on_time(double now) {
  if (phase_ == Phase::running) {
    std::set<int> present;
    for (const auto& [_, rank] : ranks_of_) present.insert(rank);
    answer(store_.expire(now, present));
    look_for_missing(now);
    look_for_silent(now);
    look_for_stalled(now);
    look_for_mismatch(now, times_.grace_s);
    if (time_to_decide(now)) decide(now);
  }
  finish_if_all_said(now);
}

void Supervisor::look_for_missing(double now) {
  if (missing_noted_ || now - begin_s_ < times_.arrival_s) return;
  missing_noted_ = true;
  std::vector<int> missing;
  for (const Rank& rank : ranks_) {
    if (!rank.activity.arrived) missing.push_back(rank.activity.rank);
  }
  if (missing.empty()) return;
  note(
      {.kind = FailureKind::missing, .time_s = now, .ranks = missing, .seconds = times_.arrival_s});
}

void Supervisor::look_for_silent(double now) {
  for (Rank& rank : ranks_) {
    if (rank.connection < 0 || rank.activity.ended || rank.reported) continue;
    if (now - rank.last_heard_s < times_.deadline_s) continue;
    rank.reported = true;
    rank.silent = true;
    note({.kind = FailureKind::silent,
          .time_s = now,
          .ranks = {rank.activity.rank},
          .seconds = times_.deadline_s});
  }
}

// Alive, and at rest for long. Other checks find ranks that are gone, silent or not there yet.
bool Supervisor::has_stalled(const Rank& rank, double now) const {
  const bool stays = rank.connection >= 0 && !rank.reported;
  return (stays || rank.activity.ended) && now - rank.last_act_s >= times_.stall();
}

// A rank that never comes to a barrier is not blamed while any that is awaited there still acts:
// it may be what that one waits for.
void Supervisor::look_for_stalled(double now) {
  if (stall_noted_) return;
  for (KeyStore::Gathering& gathering : store_.gatherings()) {
    if (now - gathering.since_s < times_.stall()) continue;
    const auto stalled = [&](int rank) { return has_stalled(rank_at(rank), now); };
    if (!std::all_of(gathering.absent.begin(), gathering.absent.end(), stalled)) continue;
    stall_noted_ = true;
    double act_s = begin_s_;
    for (const int rank : gathering.absent) act_s = std::max(act_s, rank_at(rank).last_act_s);
    note({.kind = FailureKind::stalled,
          .time_s = now,
          .ranks = std::move(gathering.absent),
          .detail = std::move(gathering.name),
          .seconds = now - act_s});
    return;
  }
}

void Supervisor::look_for_mismatch(double now, double grace_s) {
  if (mismatch_noted_ || !fingerprints_.has_mismatch()) return;
  std::optional<Diagnosis> diagnosis = fingerprints_.mismatch(now, grace_s);
  if (!diagnosis) return;
  mismatch_noted_ = true;
  note({.kind = FailureKind::mismatch,
        .time_s = now,
        .failure = RunFailure::from(std::move(*diagnosis), ExitCode::communication)});
}

bool Supervisor::time_to_decide(double now) const {
  if (mismatch_noted_) return true;  // Nothing outranks it.
  if (events_.empty()) return false;
  if (now < events_.front().time_s + times_.grace_s) return false;
  if (!std::all_of(events_.begin(), events_.end(), is_timeout)) return true;
  // They may wait for a rank that has stopped; alive ranks have given a sign of life since. A rank
  // without one will be found silent, which ends the wait.
  return std::none_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.connection >= 0 && !rank.activity.ended && !rank.reported &&
           rank.last_heard_s <= events_.front().time_s;
  });
}

void Supervisor::decide(double now) {
  look_for_mismatch(now, 0.0);
  std::vector<RankActivity> activities;
  for (const Rank& rank : ranks_) activities.push_back(rank.activity);
  forming_.failure = decide_failure(events_, activities, times_.grace_s);
  phase_ = Phase::closing;
  closing_until_s_ = now + times_.farewell_s;
  for (const Rank& rank : ranks_) {
    if (rank.connection < 0 || rank.activity.ended) continue;
    // One that was silent gets the notice, too: it may yet wake up.
    send_(rank.connection, Abort{*forming_.failure});
    const bool has_said = forming_.flight_records.count(rank.activity.rank) > 0;
    if (!rank.silent && !has_said) awaited_.insert(rank.activity.rank);
  }
}

void Supervisor::finish_if_all_said(double now) {
  if (phase_ == Phase::running) {
    const bool all_ended = std::all_of(ranks_.begin(), ranks_.end(),
                                       [](const Rank& rank) { return rank.activity.ended; });
    if (!all_ended || !events_.empty()) return;
  } else if (phase_ == Phase::done || (!awaited_.empty() && now < closing_until_s_)) {
    return;
  }
  phase_ = Phase::done;
  verdict_ = std::move(forming_);
}

}  // namespace shardsim
