#include "tests/reports/sample_schedule.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardsim::samples {

namespace {

constexpr double kForward = 1;
constexpr double kBackward = 2;
constexpr double kOptimizer = 1;

enum Name : std::uint32_t { forward, backward, optimizer, all_reduce };

struct Work {
  Name name = forward;
  std::int64_t microbatch = 0;
};

// Warm-up forwards, then one forward and one backward in turn, then what is left of backwards.
std::vector<Work> order_of(std::int64_t stages, std::int64_t stage, std::int64_t microbatches) {
  const std::int64_t warm_up = std::min(stages - stage, microbatches);
  std::vector<Work> order;
  for (std::int64_t m = 0; m < warm_up; ++m) order.push_back({forward, m});
  for (std::int64_t m = 0; m < microbatches; ++m) {
    order.push_back({backward, m});
    if (warm_up + m < microbatches) order.push_back({forward, warm_up + m});
  }
  return order;
}

}  // namespace

ScheduleChart one_forward_one_backward(std::int64_t stages, std::int64_t microbatches,
                                       std::int64_t comm_bars, std::int64_t ranks_per_stage,
                                       double step_s) {
  const auto count = static_cast<std::size_t>(stages);
  const auto width = static_cast<std::size_t>(microbatches);
  std::vector<std::vector<Work>> orders;
  for (std::int64_t s = 0; s < stages; ++s) orders.push_back(order_of(stages, s, microbatches));
  std::vector<std::size_t> next(count, 0);
  std::vector<double> free_at(count, 0);
  // When each piece of work ended; negative until then.
  std::vector<std::vector<double>> ends(count, std::vector<double>(2 * width, -1));
  ScheduleChart chart{{"forward", "backward", "optimizer", "all_reduce"}, {}};
  for (std::int64_t s = 0; s < stages; ++s) {
    chart.rows.push_back({s, static_cast<int>(s * ranks_per_stage), "compute", {}});
  }
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t s = 0; s < count; ++s) {
      if (next[s] == orders[s].size()) continue;
      const Work work = orders[s][next[s]];
      const auto m = static_cast<std::size_t>(work.microbatch);
      const bool is_forward = work.name == forward;
      double ready = 0;
      if (is_forward && s > 0) ready = ends[s - 1][m];
      if (!is_forward) ready = s + 1 < count ? ends[s + 1][width + m] : ends[s][m];
      if (ready < 0) continue;
      const double begin = std::max(ready, free_at[s]);
      const double end = begin + (is_forward ? kForward : kBackward);
      chart.rows[s].bars.push_back(
          {.name = work.name, .microbatch = work.microbatch, .begin_s = begin, .end_s = end});
      ends[s][is_forward ? m : width + m] = free_at[s] = end;
      ++next[s];
      has_moved = true;
    }
  }
  const double last = *std::max_element(free_at.begin(), free_at.end());
  const double scale = step_s / (last + kOptimizer);
  for (GanttRow& row : chart.rows) {
    row.bars.push_back({.name = optimizer, .begin_s = last, .end_s = last + kOptimizer});
    for (GanttBar& bar : row.bars) {
      bar.begin_s *= scale;
      bar.end_s *= scale;
    }
  }
  if (comm_bars == 0) return chart;
  const double pitch = step_s / static_cast<double>(comm_bars);
  std::vector<GanttRow> rows;
  for (const GanttRow& row : chart.rows) {
    rows.push_back(row);
    rows.push_back({row.stage, row.rank, "tp", {}});
    for (std::int64_t i = 0; i < comm_bars; ++i) {
      const double begin = pitch * static_cast<double>(i);
      rows.back().bars.push_back(
          {.name = all_reduce, .begin_s = begin, .end_s = begin + 0.4 * pitch});
    }
  }
  chart.rows = rows;
  return chart;
}

}  // namespace shardsim::samples
