#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/time.hpp"

// The bars and the memory of a step, in bounded memory however long the step is.
namespace shardsim {

/// A bar of a schedule, before it is drawn. Names are literals of the program.
struct TimedBar {
  std::string_view name;
  std::int64_t chunk = 0;
  std::int64_t microbatch = -1;
  Time begin;
  Time end;
};

/// The bars of one stream in order of time. Bars that do the same and touch become one. At most
/// kMostBars are kept: beyond that, neighbours are drawn as one bar. First those join that do the
/// same with little between them, and shorter ones join their neighbour.
class BarRow {
 public:
  static constexpr std::size_t kMostBars = 8192;
  /// The name of a bar for several operations.
  static constexpr std::string_view kSeveral = "several";

  /// REQUIRES: the stream did nothing else at the time.
  void add(const TimedBar& bar);
  [[nodiscard]] const std::vector<TimedBar>& bars() const { return bars_; }
  /// The limit of detail: no shorter gaps, or bars of another kind, are drawn. 0: all is drawn.
  [[nodiscard]] Time blur() const { return blur_; }
  [[nodiscard]] static Time coarser(Time blur);
  /// Uses a limit of at least `blur` from now on.
  void coarsen(Time blur);

 private:
  static void join(TimedBar& into, const TimedBar& bar);
  void append(const TimedBar& bar);
  void insert(const TimedBar& bar);

  std::vector<TimedBar> bars_;
  Time blur_;
};

/// The memory in use from `time` on.
struct TimedUse {
  Time time;
  MemoryUse bytes{};
};
[[nodiscard]] std::int64_t total_of(const MemoryUse& bytes);

/// Memory over time in bounded memory. For each instant it keeps the highest use and the last one.
/// If there are too many points, it keeps the higher one of each two neighbours.
class CurveThinner {
 public:
  /// REQUIRES: no earlier than the point before.
  void add(const TimedUse& point);
  /// All points, the last instant among them.
  [[nodiscard]] std::vector<TimedUse> finish();
  /// At most that many of them: the first, the last and the peak are always among them.
  [[nodiscard]] static std::vector<TimedUse> thinned(std::vector<TimedUse> points,
                                                     std::size_t most);
  [[nodiscard]] bool has_thinned() const { return has_thinned_; }

 private:
  static constexpr std::size_t kMostKept = 16'384;
  void close_instant();

  std::vector<TimedUse> points_;
  // The instant that has not ended yet.
  bool is_open_ = false;
  TimedUse most_;
  TimedUse left_;
  bool has_thinned_ = false;
};

}  // namespace shardsim
