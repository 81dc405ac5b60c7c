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

/// The bars of one stream in order of time. Those that do the same and touch are one. However many
/// are added, at most kMostBars are kept: neighbours are drawn as one bar then, first those that do
/// the same with little between them, and what is shorter than that with its neighbour.
class BarRow {
 public:
  static constexpr std::size_t kMostBars = 8192;
  /// What a bar of several things is called.
  static constexpr std::string_view kSeveral = "several";

  /// REQUIRES: the stream did nothing else at the time.
  void add(const TimedBar& bar);
  [[nodiscard]] const std::vector<TimedBar>& bars() const { return bars_; }
  /// What is not drawn apart: gaps up to this, and bars up to it of another kind. 0: all is drawn.
  [[nodiscard]] Time blur() const { return blur_; }
  [[nodiscard]] static Time coarser(Time blur);
  /// Draws no finer than that from now on.
  void coarsen(Time blur);

 private:
  static void join(TimedBar& into, const TimedBar& bar);
  void append(const TimedBar& bar);
  void insert(const TimedBar& bar);

  std::vector<TimedBar> bars_;
  Time blur_;
};

}  // namespace shardsim
