#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "backends/process_backend.hpp"

// Last calls of a rank, kept in a ring and shown when the run fails.
namespace shardsim {

enum class FlightState : std::uint8_t { posted, started, ended };
[[nodiscard]] const char* name_of(FlightState state);

struct FlightEntry {
  std::string group;
  int instance = 0;
  std::int64_t sequence = 0;
  std::string call;  ///< "all_reduce sum fp32 x 128 \"bucket 3\"".
  std::string site;  ///< "file.cpp:12", may be empty.
  FlightState state = FlightState::posted;
  double posted_s = 0.0;  ///< Seconds since the recorder was made; -1: not yet.
  double started_s = -1.0;
  double ended_s = -1.0;

  /// "#12 all_reduce ... of group world at file.cpp:12".
  [[nodiscard]] std::string describe() const;
};

using FlightRecord = std::vector<FlightEntry>;  ///< The oldest first.

/// A table for people, one line per call.
[[nodiscard]] std::string to_text(const FlightRecord& record);

/// May be written by one thread and read by others.
class FlightRecorder {
 public:
  static constexpr std::size_t kSize = 256;

  /// `clock` gives seconds.
  explicit FlightRecorder(std::function<double()> clock);
  FlightRecorder();

  void posted(const CallWatch::Call& call);
  void started(const CallWatch::Call& call) {
    come_to(call, FlightState::started, &FlightEntry::started_s);
  }
  void ended(const CallWatch::Call& call) {
    come_to(call, FlightState::ended, &FlightEntry::ended_s);
  }

  [[nodiscard]] FlightRecord record() const;
  /// FlightEntry::describe(); empty if there is none.
  [[nodiscard]] std::string last_posted() const;
  [[nodiscard]] std::string last_ended() const;

 private:
  FlightEntry* find(const CallWatch::Call& call);
  void come_to(const CallWatch::Call& call, FlightState state, double FlightEntry::*moment_s);
  double now() const { return clock_() - begin_s_; }

  const std::function<double()> clock_;
  const double begin_s_;
  mutable std::mutex mutex_;
  std::vector<FlightEntry> ring_;
  std::size_t next_ = 0;  // Index of the next entry once the ring is full.
  std::string last_ended_;
};

}  // namespace shardsim
