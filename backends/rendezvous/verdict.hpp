#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/rendezvous/flight_recorder.hpp"
#include "backends/rendezvous/rendezvous_message.hpp"

// Finds the cause among failures at about the same time: a pure function.
namespace shardsim {

/// The rendezvous's knowledge of a rank when it decides.
struct RankActivity {
  int rank = 0;
  bool arrived = false;
  bool told = false;   ///< It has given a sign of life since it arrived: what follows is known.
  bool ended = false;  ///< It has said that it is done.
  int pid = 0;
  std::string host;
  std::string last_posted;  ///< FlightEntry::describe(), as of its last sign of life; empty: none.
  std::string last_ended;
};

/// One thing that went wrong.
struct FailureEvent {
  enum class Kind {
    mismatch,  ///< Calls of members differ; `failure` holds the diagnosis.
    report,    ///< A rank, or the launching side (no rank), says why it gives up: `failure`.
    died,     ///< A connection ended without a farewell; `detail`: how its process ended, if known.
    silent,   ///< Nothing heard of the rank for `seconds`.
    missing,  ///< The ranks have not arrived within `seconds`.
    /// The ranks live, but have made no call for `seconds`, while all others wait for them in the
    /// rendezvous's barrier `detail`.
    stalled,
  };
  Kind kind = Kind::report;
  double time_s = 0.0;  ///< When it was noticed.
  std::vector<int> ranks;
  std::optional<RunFailure> failure;
  std::string detail;
  double seconds = 0.0;
};

struct Verdict {
  std::optional<RunFailure> failure;           ///< Nothing: every rank has ended well.
  std::map<int, FlightRecord> flight_records;  ///< By rank, of those that could still send one.

  [[nodiscard]] ExitCode exit_code() const { return failure ? failure->exit_code : ExitCode::ok; }
};

/// The one cause, in this order:
/// 1. what the launching side says of itself (an interrupt): the user knows that one;
/// 2. calls that do not match, found by comparison: it knows both sides, and whatever follows,
///    follows from that;
/// 3. the same as a rank reports it, which knows its own side only;
/// 4. what a rank says of itself: an error that is neither one of communication nor of the backend;
/// 5. a rank that died: others' broken connections and timeouts follow. But not one that died more
///    than `grace_s` after another had given up: it follows from that;
/// 6. a silent rank (stopped, or its machine is gone): others wait for it;
/// 7. ranks that never arrived;
/// 8. the first error of the backend that a rank reports;
/// 9. all timeouts, as one report;
/// 10. ranks that live but never come to a barrier: a timeout says more.
/// Among equals the earliest counts. REQUIRES: `events` is not empty; `ranks` holds every rank of
/// the world in order.
[[nodiscard]] RunFailure decide_failure(std::span<const FailureEvent> events,
                                        std::span<const RankActivity> ranks, double grace_s);

/// Whether an event says no more than that its rank waits in vain: the cause may yet show.
[[nodiscard]] bool is_timeout(const FailureEvent& event);

}  // namespace shardsim
