#pragma once

#include "sim/kernel/clock_stretch.hpp"
#include "sim/kernel/computed_beside.hpp"
#include "sim/kernel/time.hpp"

// The clocks of one rank: its compute stream's and its host's, and what the time went to. Fibers
// and replayed programs move them by the same rules, which are all here.
namespace shardsim {

/// A partition of the compute stream: the four add up to the rank's clock exactly.
struct TimeSplit {
  Time compute;       ///< Busy.
  Time host;          ///< Waiting for work, which the host has not issued yet.
  Time exposed_comm;  ///< Waiting inside a communication's own start and end.
  Time bubble;        ///< Waiting before the communication started: for other ranks.

  friend bool operator==(const TimeSplit&, const TimeSplit&) = default;
};

/// All of a rank's clock.
struct ClockParts {
  Time clock;  ///< The compute stream's, never behind the host's.
  Time host;
  TimeSplit split = {};
  int num_beside = 0;            ///< Communications posted and not waited for.
  ComputedBeside computed = {};  ///< Not charged for.
};

/// A clock that lies elsewhere, beside others, and that nobody asks what its time went to.
struct ClockView {
  Time& clock;
  Time& host;
  int num_beside;
  ComputedBeside& computed;
};

/// `Parts`: ClockParts or ClockView.
template <class Parts>
class StreamClock {
 public:
  StreamClock() = default;
  explicit StreamClock(const Parts& parts) : parts_(parts) {}

  /// The compute stream's.
  [[nodiscard]] Time now() const { return parts_.clock; }
  /// The host's: nothing that it posts starts before.
  [[nodiscard]] Time issued() const { return parts_.host; }
  [[nodiscard]] const TimeSplit& split() const { return parts_.split; }
  [[nodiscard]] int num_beside() const { return parts_.num_beside; }

  /// The host spends this on its next work. It runs ahead of the compute stream, which waits where
  /// the host is late.
  void issue(Time host_time) {
    parts_.host += host_time;
    if (parts_.host <= parts_.clock) return;
    if constexpr (kSplits) parts_.split.host += parts_.host - parts_.clock;
    parts_.clock = parts_.host;
  }
  /// The host waits until the compute stream has done all its work.
  void synchronize() { parts_.host = parts_.clock; }
  /// Occupies the compute stream for `price`.
  void compute(Time price) {
    const Time begin = parts_.clock;
    parts_.clock += price;
    if constexpr (kSplits) parts_.split.compute += price;
    if (parts_.num_beside > 0) parts_.computed.note(begin, parts_.clock);
  }
  /// One kernel: the host issues it, the compute stream does it. Returns when it began.
  Time launch(Time host_time, Time price, const StreamRules& rules) {
    issue(host_time);
    const Time begin = parts_.clock;
    compute(price);
    if (rules.waits_for_kernels) synchronize();
    return begin;
  }

  /// All of a stretch.
  void run(const ClockStretch& stretch) {
    if (parts_.num_beside > 0 && stretch.may_be_late(parts_.clock, parts_.host)) {
      return run(stretch, [](Time price) { return price; });
    }
    const Time begin = parts_.clock;
    const Time host = parts_.host;
    parts_.clock = max(begin + stretch.stream_to_stream_, host + stretch.host_to_stream_);
    parts_.host = max(begin + stretch.stream_to_host_, host + stretch.host_to_host_);
    if constexpr (kSplits) {
      parts_.split.compute += stretch.busy_;
      parts_.split.host += parts_.clock - begin - stretch.busy_;
    }
    if (parts_.num_beside > 0 && stretch.busy_ > Time()) parts_.computed.note(begin, parts_.clock);
  }

  /// The same, where `change` gives each price another value.
  template <class Change>
  void run(const ClockStretch& stretch, Change&& change) {
    for (const ClockStretch::Work& work : stretch.works_) {
      if (work.synchronizes) {
        synchronize();
      } else {
        launch(work.host_time, change(work.price), stretch.rules_);
      }
    }
  }

  /// The same, where all works together have another price. REQUIRES: host_is_free().
  void run_as_one(const ClockStretch& stretch, Time price) {
    compute(price);
    if (stretch.rules_.waits_for_kernels) synchronize();
  }

  /// From here until the communication is waited for, computing may have to be charged for.
  void begin_beside() { ++parts_.num_beside; }
  /// Ends the communication that ran from `start` to `end`: computing during that time took longer
  /// by `share`. No moment of computing is charged twice.
  void end_beside(Time start, Time end, double share) {
    charge(start, end, share, --parts_.num_beside == 0);
  }
  /// Charges for what was computed beside a communication. `is_last`: as ComputedBeside::take.
  void charge(Time start, Time end, double share, bool is_last) {
    const Time beside = parts_.computed.take(start, end, is_last);
    if (beside == Time()) return;
    const Time lost = Time::from_seconds(beside.seconds() * share);
    parts_.clock += lost;
    if constexpr (kSplits) parts_.split.compute += lost;
  }
  /// No communication that is still to be waited for starts before.
  void forget_beside(Time before) { parts_.computed.forget(before); }
  /// The host has driven another stream of the device, and goes on with this one.
  void take_over(const StreamClock& other) {
    parts_.host = other.parts_.host;
    parts_.num_beside = other.parts_.num_beside;
    issue(Time());
  }
  /// The compute stream waits for an operation that ran from `start` to `end`.
  void advance_to(Time start, Time end) {
    if (end <= parts_.clock) return;
    if constexpr (kSplits) {
      if (start > parts_.clock) {
        parts_.split.bubble += start - parts_.clock;
        parts_.clock = start;
      }
      parts_.split.exposed_comm += end - parts_.clock;
    }
    parts_.clock = end;
  }

  /// The host posts a communication, which is a transfer between two ranks or a collective. Returns
  /// the first moment at which it may start: `behind_work`, where it comes behind another
  /// communication instead of what the compute stream has to do.
  Time post(bool behind_work, const StreamRules& rules) {
    issue(rules.call_price);
    return behind_work ? parts_.host : parts_.clock;
  }
  /// A collective is under way from now on.
  void begin_collective(const StreamRules& rules) {
    if (rules.slowdown > 0.0) begin_beside();
  }
  /// The compute stream has waited for a communication that ran from `start` to `end`.
  void wait(Time start, Time end, bool is_transfer, const StreamRules& rules) {
    if (!is_transfer && rules.slowdown > 0.0) end_beside(start, end, rules.slowdown);
    advance_to(start, end);
    if (rules.waits_for_kernels || (is_transfer && rules.waits_for_transfers)) synchronize();
  }

 private:
  static constexpr bool kSplits = requires(Parts parts) { parts.split; };

  Parts parts_;
};

using RankClock = StreamClock<ClockParts>;

}  // namespace shardsim
