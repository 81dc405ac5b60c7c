#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/rendezvous/fingerprint_table.hpp"
#include "backends/rendezvous/key_store.hpp"
#include "backends/rendezvous/rendezvous_message.hpp"
#include "backends/rendezvous/verdict.hpp"

namespace shardsim {

/// Times of a supervised run, in seconds.
struct SupervisionTimes {
  double arrival_s = 30.0;   ///< For all ranks to come.
  double deadline_s = 10.0;  ///< Without a sign of life a rank counts as silent.
  double grace_s = 0.5;      ///< For further reports after the first, before the verdict.
  double farewell_s = 3.0;   ///< For ranks to send their flight records after the verdict.
  /// So long a rank that lives may make no call while others wait for it in a barrier of the
  /// rendezvous: it may compute, but not forever.
  [[nodiscard]] double stall() const { return 10 * deadline_s; }
};

/// The server's view of the run: present ranks, their stored values, and failures. A state machine
/// without sockets, threads or a clock; connections are numbers.
class Supervisor {
 public:
  using Send = std::function<void(int connection, const RendezvousMessage&)>;
  /// After what was sent.
  using Close = std::function<void(int connection)>;

  Supervisor(int world_size, std::string token, SupervisionTimes times, double now, Send send,
             Close close);

  void on_message(int connection, RendezvousMessage&& message, double now);
  /// The connection is gone, or sent what is no message.
  void on_lost(int connection, double now);
  /// Time passes: to be called a few times per grace.
  void on_time(double now);
  /// The launcher's account of a rank's process end.
  void on_process_end(int rank, const std::string& description);
  /// The launching side gives up, for a reason of its own.
  void on_given_up(const RunFailure& failure, double now);

  /// Whether this connection has proved to be a rank's.
  [[nodiscard]] bool knows(int connection) const { return ranks_of_.count(connection) > 0; }
  /// Once all has ended, well or not.
  [[nodiscard]] const std::optional<Verdict>& verdict() const { return verdict_; }
  [[nodiscard]] const KeyStore& store() const { return store_; }

 private:
  enum class Phase { running, closing, done };
  struct Rank {
    RankActivity activity;
    int connection = -1;  // -1: not there, or gone.
    double last_heard_s = 0.0;
    double last_act_s = 0.0;  // When it last is known to have done more than live.
    bool reported = false;    // It has said why it gives up, or was found dead or silent.
    bool silent = false;
    std::string process_end;
  };

  void greet(int connection, const Hello& hello, double now);
  [[nodiscard]] std::optional<std::string> refusal_of(const Hello& hello) const;
  void hear(Rank& rank, RendezvousMessage&& message, double now);
  void hear_report(Rank& rank, FailureReport&& report, double now);
  void answer(const std::vector<KeyStore::Answer>& answers);
  void note(FailureEvent event);
  void look_for_missing(double now);
  void look_for_silent(double now);
  void look_for_stalled(double now);
  [[nodiscard]] bool has_stalled(const Rank& rank, double now) const;
  void look_for_mismatch(double now, double grace_s);
  [[nodiscard]] bool time_to_decide(double now) const;
  void decide(double now);
  void finish_if_all_said(double now);
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  const std::string token_;
  const SupervisionTimes times_;
  const double begin_s_;
  const Send send_;
  const Close close_;
  Phase phase_ = Phase::running;
  std::vector<Rank> ranks_;
  std::map<int, int> ranks_of_;  // By connection.
  KeyStore store_;
  FingerprintTable fingerprints_;
  bool mismatch_noted_ = false;
  bool missing_noted_ = false;
  bool stall_noted_ = false;
  std::vector<FailureEvent> events_;
  double closing_until_s_ = 0.0;
  std::set<int> awaited_;  // Ranks whose flight record is still to come.
  Verdict forming_;
  std::optional<Verdict> verdict_;
};

}  // namespace shardsim
