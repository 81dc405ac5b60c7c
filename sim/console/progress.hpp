#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace shardsim {

/// "45 s", "3 min 20 s", "2 h 5 min": whole seconds, but only minutes beside hours.
[[nodiscard]] std::string duration_words(std::chrono::seconds duration);

/// "12 of 100, 5 s, about 37 s left": the finished part of the work, and the time for the rest at
/// the speed so far. The rest is left out until a part is finished.
[[nodiscard]] std::string progress_words(std::size_t done, std::size_t total,
                                         std::chrono::milliseconds elapsed);

/// A line on stderr for work that takes over a second: the elapsed time, and the remaining time if
/// it is known. Only this class reads a wall clock; nothing of it reaches a result. Tick as often
/// as is convenient: most calls only read the clock.
class Progress {
 public:
  /// Elsewhere than on a terminal, a line every ten seconds, or none.
  enum class Where : std::uint8_t { everywhere, terminal };

  Progress(std::ostream& err, bool enabled, Where where = Where::everywhere);
  /// The remaining work is unknown.
  void tick();
  /// `done` of `total` equal parts are done, counted from the begin of this Progress: a resumed
  /// sweep leaves out the points that it found.
  void tick(std::size_t done, std::size_t total);
  /// The remaining work is known, but not its time: "3 simulated, best 1.2 s".
  void tick(const std::string& words);
  /// Ends the line, if there is one.
  void done();
  /// The time since its begin: for limits on time that a user sets.
  [[nodiscard]] std::chrono::seconds elapsed() const;
  /// The same in full. Any thread may ask.
  [[nodiscard]] double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  // `words`: of the elapsed milliseconds.
  template <class Words>
  void tell_if_due(const Words& words);

  std::ostream& err_;
  bool enabled_;
  bool in_place_;  // A terminal's line is overwritten; elsewhere a line every ten seconds.
  bool shown_ = false;
  Clock::time_point begin_;
  Clock::time_point next_;
};

}  // namespace shardsim
