#pragma once

#include <cstdint>
#include <vector>

#include "sim/kernel/time.hpp"

namespace shardsim {

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

  struct Work {
    Time host_time;
    Time price;
    bool synchronizes = false;
  };
  [[nodiscard]] const std::vector<Work>& works() const { return works_; }
  /// The host needs no time, and waits for the stream at most at the end: so the stream does all
  /// works as if they were one.
  [[nodiscard]] bool host_is_free() const { return host_is_free_; }

 private:
  template <class Parts>
  friend class StreamClock;
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
  bool host_is_free_ = true;
  bool is_late_ = false;  // Whatever the clocks are,
  Time margin_;           // or if the host is not behind by this, which is not positive.
};

}  // namespace shardsim
