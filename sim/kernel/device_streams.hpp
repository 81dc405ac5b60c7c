#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sim/kernel/rank_clock.hpp"

namespace shardsim {

/// The compute streams of a device with several, and its events. The rank's clock is that of the
/// stream in use, so that all who move it need not know of others; those lie here meanwhile. A rank
/// with one stream has no such object.
///
/// Each moment in which a stream computes beside a collective is charged for, whichever stream
/// waits for that, and whichever of both is known first.
class DeviceStreams {
 public:
  /// `clock`: that of stream 0, which is in use. It has done nothing yet.
  DeviceStreams(std::uint32_t num_streams, std::uint32_t num_events, const StreamRules& rules,
                RankClock& clock);

  [[nodiscard]] std::uint32_t in_use() const { return in_use_; }
  /// The host goes on with another stream, which is idle from the end of its work until now.
  void use(std::uint32_t stream, RankClock& clock);
  /// The event is what the stream in use has done and waited for so far.
  void record(std::uint32_t event, const RankClock& clock);
  /// The stream in use waits for the event. That counts as a wait for the communication that the
  /// event's stream has waited for last; if there is none, as a bubble.
  void wait(std::uint32_t event, RankClock& clock);
  /// The stream in use has waited for a communication, which its clock knows.
  void waited(Time start, Time end, bool is_transfer, RankClock& clock);
  /// Charges for what the stream in use has computed beside collectives that were waited for before
  /// it did. To be called before its clock is looked at by others.
  void charge(RankClock& clock);

 private:
  struct Interval {
    Time start;
    Time end;
  };
  struct Stream {
    RankClock clock;                             // While it is not in use.
    std::optional<Interval> communication = {};  // The last one that it waited for.
    Time charged;  // Work before is charged for, as far as collectives are known.
  };
  struct Event {
    Time moment;
    std::optional<Interval> communication;  // The stream's.
  };
  [[nodiscard]] bool charges() const { return slowdown_ > 0.0; }
  void add(Interval added);
  // Drops what no stream can meet any more.
  void forget(RankClock& clock);

  double slowdown_;
  bool host_waits_;
  std::uint32_t in_use_ = 0;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  // When collectives ran that a stream may still compute beside: in order, with gaps between them.
  std::deque<Interval> collectives_;
};

}  // namespace shardsim
