#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/kernel/time.hpp"

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

}  // namespace shardsim
