#pragma once

#include <cstdint>
#include <vector>

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

/// How a host works with its device.
struct StreamRules {
  Time call_price;                   ///< Host time to post a communication.
  bool waits_for_kernels = false;    ///< The host, for each kernel and for what it waits for.
  bool waits_for_transfers = false;  ///< The host, when it waits for a transfer between two ranks.
  double slowdown = 0.0;             ///< Computing beside a collective takes longer by this share.
};

/// Work of a compute stream and its host between two calls, as one function of both clocks, which
/// is a 2 x 2 matrix over (max, +): so it costs the same however much work it is.
class ClockStretch {
 public:
  explicit ClockStretch(const StreamRules& rules) : rules_(rules) {}

  /// RankClock::launch,
  void launch(Time host_time, Time price);
  /// and RankClock::synchronize.
  void synchronize();
  [[nodiscard]] bool empty() const { return works_.empty(); }

 private:
  friend class RankClock;
  struct Work {
    Time host_time;
    Time price;
    bool synchronizes = false;
  };
  // Sooner than any time that a clock may have.
  static constexpr Time kNever = Time::from_picoseconds(std::int64_t{-1} << 61);

  /// Whether the compute stream may wait for its host: then it is not busy without a gap.
  [[nodiscard]] bool may_be_late(Time clock, Time host_clock) const {
    return is_late_ || host_clock - clock > margin_;
  }

  StreamRules rules_;
  std::vector<Work> works_;
  Time busy_;
  // From either clock to either: the compute stream's first, then the host's.
  Time stream_to_stream_;
  Time host_to_stream_ = kNever;
  Time stream_to_host_ = kNever;
  Time host_to_host_;
  bool is_late_ = false;  // Whatever the clocks are,
  Time margin_;           // or if the host is not behind by this, which is not positive.
};

class RankClock {
 public:
  /// The compute stream's.
  [[nodiscard]] Time now() const { return clock_; }
  /// The host's: nothing that it posts starts before.
  [[nodiscard]] Time issued() const { return host_clock_; }
  [[nodiscard]] const TimeSplit& split() const { return split_; }

  /// The host spends this on its next work. It runs ahead of the compute stream, which waits where
  /// the host is late.
  void issue(Time host_time) {
    host_clock_ += host_time;
    if (host_clock_ <= clock_) return;
    split_.host += host_clock_ - clock_;
    clock_ = host_clock_;
  }
  /// The host waits until the compute stream has done all its work.
  void synchronize() { host_clock_ = clock_; }
  /// Occupies the compute stream for `price`.
  void compute(Time price) {
    const Time begin = clock_;
    clock_ += price;
    split_.compute += price;
    if (num_beside_ > 0) note_beside(begin);
  }
  /// One kernel: the host issues it, the compute stream does it. Returns when it began.
  Time launch(Time host_time, Time price, const StreamRules& rules) {
    issue(host_time);
    const Time begin = clock_;
    compute(price);
    if (rules.waits_for_kernels) synchronize();
    return begin;
  }

  /// All of a stretch.
  void run(const ClockStretch& stretch) {
    if (num_beside_ > 0 && stretch.may_be_late(clock_, host_clock_)) {
      return run(stretch, [](Time price) { return price; });
    }
    const Time begin = clock_;
    const Time host = host_clock_;
    clock_ = max(begin + stretch.stream_to_stream_, host + stretch.host_to_stream_);
    host_clock_ = max(begin + stretch.stream_to_host_, host + stretch.host_to_host_);
    split_.compute += stretch.busy_;
    split_.host += clock_ - begin - stretch.busy_;
    if (num_beside_ > 0 && stretch.busy_ > Time()) note_beside(begin);
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

  /// From here until the communication is waited for, computing may have to be charged for.
  void begin_beside() { ++num_beside_; }
  /// Ends the communication that ran from `start` to `end`: computing during that time took longer
  /// by `share`. No moment of computing is charged twice.
  void end_beside(Time start, Time end, double share) {
    if (computed_.empty()) {
      --num_beside_;
    } else {
      charge_beside(start, end, share);
    }
  }
  /// The compute stream waits for an operation that ran from `start` to `end`.
  void advance_to(Time start, Time end) {
    if (end <= clock_) return;
    if (start > clock_) {
      split_.bubble += start - clock_;
      clock_ = start;
    }
    split_.exposed_comm += end - clock_;
    clock_ = end;
  }

  /// The host posts a communication, which is a transfer between two ranks or a collective. Returns
  /// the first moment at which it may start: `behind_work`, where it comes behind another
  /// communication instead of what the compute stream has to do.
  Time post(bool behind_work, const StreamRules& rules) {
    issue(rules.call_price);
    return behind_work ? host_clock_ : clock_;
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
  struct Interval {
    Time begin;
    Time end;
  };
  void note_beside(Time begin);
  void charge_beside(Time start, Time end, double share);
  [[nodiscard]] Time between(Time start, Time end) const;
  Time take_between(Time start, Time end);

  Time clock_;  // Never behind the host's.
  Time host_clock_;
  TimeSplit split_;
  int num_beside_ = 0;              // Communications posted and not waited for.
  std::vector<Interval> computed_;  // Beside them, in order, and not charged for.
};

}  // namespace shardsim
