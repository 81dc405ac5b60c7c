#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>

namespace shardsim {

/// A line on stderr for runs that take over a second: that the run is alive, and for how long. The
/// only place that reads a wall clock; nothing of it reaches a result.
class Progress {
 public:
  Progress(std::ostream& err, bool enabled);
  void tick();
  /// Ends the line, if there is one.
  void done();

 private:
  using Clock = std::chrono::steady_clock;
  std::ostream& err_;
  bool enabled_;
  bool in_place_;  // A terminal's line is overwritten; elsewhere a line every ten seconds.
  bool shown_ = false;
  Clock::time_point begin_;
  Clock::time_point next_;
};

}  // namespace shardsim
