#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace shardsim {

/// "45 s", "3 min 20 s", "2 h 5 min": whole seconds, and nobody needs those of hours.
[[nodiscard]] std::string duration_words(std::chrono::seconds duration);

/// "12 of 100, 5 s, about 37 s left": what is done of what there is to do, and how long the rest
/// takes at the speed so far. Nothing is said of the rest before something is done.
[[nodiscard]] std::string progress_words(std::size_t done, std::size_t total,
                                         std::chrono::milliseconds elapsed);

/// A line on stderr for what takes over a second: that it is alive, for how long, and what is left
/// where that is known. The only place that reads a wall clock; nothing of it reaches a result.
/// Tick as often as is convenient: most calls only read the clock.
class Progress {
 public:
  Progress(std::ostream& err, bool enabled);
  /// It is not known how much is left.
  void tick();
  /// `done` of `total` equal parts are done, counted from the begin of this Progress: a sweep that
  /// goes on with an old one leaves out what it found.
  void tick(std::size_t done, std::size_t total);
  /// It is known what is left, but not how long it takes: "3 simulated, 8 still open".
  void tick(const std::string& words);
  /// Ends the line, if there is one.
  void done();
  /// Since its begin: for limits on time that a user sets.
  [[nodiscard]] std::chrono::seconds elapsed() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due(Clock::time_point now);
  void show(const std::string& words);

  std::ostream& err_;
  bool enabled_;
  bool in_place_;  // A terminal's line is overwritten; elsewhere a line every ten seconds.
  bool shown_ = false;
  Clock::time_point begin_;
  Clock::time_point next_;
};

}  // namespace shardsim
