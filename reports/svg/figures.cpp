#include "reports/svg/figures.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reports/stage_groups.hpp"
#include "reports/svg/drawing.hpp"
#include "reports/units.hpp"

namespace shardsim {
namespace {

using svg::Anchor;
using svg::Drawing;

// Figures of horizontal bars whose parts lie end to end, one bar a line.
struct StackedBar {
  std::string label;
  std::vector<double> parts;  ///< In the order of the inks.
  std::string total;          ///< In words, behind the bar.
};

struct StackedBars {
  std::vector<svg::Ink> inks;
  std::vector<StackedBar> bars;
  double full = 0;  ///< The value as long as a bar can be.
};

constexpr double kLeft = 96;  // Labels stand before it, totals behind the right end.
constexpr double kRight = svg::kFigureWidth - 90;
constexpr double kBar = 22;
constexpr double kPitch = 30;
constexpr double kLeastForShare = 34;

// The x of `value`, for marks across the bars.
double stacked_bar_x(const StackedBars& chart, double value) {
  return kLeft + (chart.full > 0 ? value / chart.full : 0) * (kRight - kLeft);
}

// Draws from `y` on; returns the y below the figure. Parts that are wide enough show their share.
double draw_stacked_bars(Drawing& drawing, const StackedBars& chart, double y) {
  for (const StackedBar& bar : chart.bars) {
    const std::vector<int> percents = apportion(bar.parts, 100);
    drawing.text(kLeft - 8, y + 15, bar.label, Anchor::end);
    double before = 0;
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      if (!(bar.parts[i] > 0)) continue;
      const double x = stacked_bar_x(chart, before);
      before += bar.parts[i];
      const double width = stacked_bar_x(chart, before) - x;
      drawing.rect(x, y, width, kBar, chart.inks[i].fill);
      if (width >= kLeastForShare) {
        drawing.text(x + width / 2, y + 15, fmt::format("{} %", percents[i]), Anchor::middle,
                     chart.inks[i].text, 11);
      }
    }
    drawing.text(stacked_bar_x(chart, before) + 8, y + 15, bar.total, Anchor::start, svg::kMuted);
    y += kPitch;
  }
  return y;
}

StackedBar bar_of(std::string label, std::vector<double> seconds) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {std::move(label), std::move(seconds), format_seconds(sum)};
}

// The legend omits parts that no bar has.
void leave_out_empty(StackedBars& chart) {
  for (std::size_t part = chart.inks.size(); part-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(part);
    if (std::any_of(chart.bars.begin(), chart.bars.end(),
                    [part](const StackedBar& bar) { return bar.parts[part] > 0; })) {
      continue;
    }
    chart.inks.erase(chart.inks.begin() + at);
    for (StackedBar& bar : chart.bars) bar.parts.erase(bar.parts.begin() + at);
  }
}

using Point = MemoryCurve::Point;

constexpr double kPlotLeft = 80;
constexpr double kPlotRight = svg::kFigureWidth - 16;
constexpr double kPlotHeight = 240;
constexpr std::size_t kColumns = 600;

double total_of(const Point& point) {
  return static_cast<double>(
      std::accumulate(point.bytes.begin(), point.bytes.end(), std::int64_t{0}));
}

double peak_of(const MemoryCurve& curve) {
  double peak = 0;
  for (const Point& point : curve.points) peak = std::max(peak, total_of(point));
  return peak;
}

// The fullest moment of each column, so that no peak is lost; an empty column keeps the last.
std::vector<Point> columns_of(const MemoryCurve& curve) {
  const double begin = curve.points.front().time_s;
  const double span = curve.points.back().time_s - begin;
  std::vector<Point> columns;
  std::size_t next = 0;
  for (std::size_t column = 0; column < kColumns; ++column) {
    Point fullest = next > 0 ? curve.points[next - 1] : curve.points.front();
    const double end = begin + span * static_cast<double>(column + 1) / kColumns;
    bool is_first = true;
    for (;
         next < curve.points.size() && (curve.points[next].time_s <= end || column + 1 == kColumns);
         ++next) {
      if (is_first || total_of(curve.points[next]) > total_of(fullest)) {
        fullest = curve.points[next];
      }
      is_first = false;
    }
    columns.push_back(fullest);
  }
  return columns;
}

/// The area between the sums of the categories before `category` and with it.
std::string area_of(const std::vector<Point>& columns, std::size_t category, double full,
                    double bottom) {
  const auto y = [&](const Point& point, std::size_t categories) {
    const auto sum = std::accumulate(point.bytes.begin(),
                                     point.bytes.begin() + static_cast<std::ptrdiff_t>(categories),
                                     std::int64_t{0});
    return svg::length(bottom - static_cast<double>(sum) / full * kPlotHeight);
  };
  const double step = (kPlotRight - kPlotLeft) / static_cast<double>(columns.size());
  const auto x = [&](std::size_t column) {
    return svg::length(kPlotLeft + step * static_cast<double>(column));
  };
  std::string path = "M" + x(0) + " " + y(columns[0], category + 1);
  std::string last;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string now = y(columns[i], category + 1);
    if (now != last) path += "H" + x(i) + "V" + now;
    last = now;
  }
  path += "H" + x(columns.size());
  last.clear();
  for (std::size_t i = columns.size(); i-- > 0;) {
    const std::string now = y(columns[i], category);
    if (now != last) path += "H" + x(i + 1) + "V" + now;
    last = now;
  }
  return path + "H" + x(0) + "z";
}

}  // namespace

std::string to_svg_breakdown(const Result& result, const RunDetail& detail) {
  if (!result.find(metric::kTimeComputeS)) return {};
  StackedBars chart;
  chart.inks.assign(svg::kTimeInks.begin(), svg::kTimeInks.end());
  std::vector<double> whole;
  for (const MetricRow& part : {metric::kTimeComputeS, metric::kTimeExposedCommS,
                                metric::kTimeBubbleS, metric::kTimeHostS}) {
    whole.push_back(result.number(part).value_or(0));
  }
  chart.bars.push_back(bar_of("whole step", std::move(whole)));
  if (detail.stages.size() > 1) {
    for (const StageGroup& group : groups_by_time(detail.stages)) {
      const StageTime& stage = detail.stages[group.first];
      chart.bars.push_back(
          bar_of(name_of(group, detail.stages),
                 {stage.compute_s, stage.exposed_comm_s, stage.bubble_s, stage.host_s}));
    }
  }
  for (const StackedBar& bar : chart.bars) {
    chart.full = std::max(chart.full, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  }
  leave_out_empty(chart);
  Drawing drawing("Where the time of one step goes, for the whole run and each stage");
  const double y = drawing.legend(chart.inks, 2);
  return drawing.finish(draw_stacked_bars(drawing, chart, y));
}

std::string to_svg_memory(const RunDetail& detail, double device_bytes) {
  if (detail.stages.empty()) return {};
  StackedBars chart;
  chart.inks.assign(svg::kMemoryInks.begin(), svg::kMemoryInks.end());
  chart.full = device_bytes;
  for (const StageGroup& group : groups_by_memory(detail.stages)) {
    const StageTime& stage = detail.stages[group.first];
    const auto peak = static_cast<double>(stage.peak_bytes);
    chart.full = std::max(chart.full, peak);
    chart.bars.push_back({detail.stages.size() > 1 ? name_of(group, detail.stages) : "fullest rank",
                          std::vector<double>(stage.at_peak.begin(), stage.at_peak.end()),
                          format_memory(peak)});
  }
  Drawing drawing("Memory of the fullest rank of each stage at its peak, by category");
  const double label = drawing.legend(chart.inks, 2) + 10;
  const double top = label + 8;
  const double bottom = draw_stacked_bars(drawing, chart, top);
  if (device_bytes > 0) {
    const double x = stacked_bar_x(chart, device_bytes);
    drawing.line(x, label + 4, x, bottom - 4, svg::kAlarm, true);
    drawing.text(x, label, "device: " + format_memory(device_bytes), Anchor::end, svg::kAlarm);
  }
  return drawing.finish(bottom);
}

std::string to_svg_memory_over_time(const RunDetail& detail, double device_bytes) {
  const auto fullest = std::ranges::max_element(detail.memory, {}, peak_of);
  if (fullest == detail.memory.end() || fullest->points.empty()) return {};
  const double full = std::max({device_bytes, peak_of(*fullest), 1.0}) * 1.04;
  Drawing drawing(fmt::format("Memory through the step on rank {} of stage {}, by category",
                              format_count(fullest->rank), fullest->stage));
  const double top = drawing.legend({svg::kMemoryInks.begin(), svg::kMemoryInks.end()}, 2);
  const double bottom = top + kPlotHeight;
  constexpr int kTicks = 4;
  for (int i = 0; i <= kTicks; ++i) {
    const double y = bottom - kPlotHeight * i / kTicks;
    drawing.line(kPlotLeft, y, kPlotRight, y, svg::kLine);
    drawing.text(kPlotLeft - 8, y + 4, format_memory(full * i / kTicks), Anchor::end, svg::kMuted);
  }
  const std::vector<Point> columns = columns_of(*fullest);
  for (std::size_t c = 0; c < kNumMemoryCategories; ++c) {
    drawing.path(area_of(columns, c, full, bottom), svg::kMemoryInks.at(c).fill);
  }
  if (device_bytes > 0) {
    const double y = bottom - device_bytes / full * kPlotHeight;
    drawing.line(kPlotLeft, y, kPlotRight, y, svg::kAlarm, true);
    drawing.text(kPlotRight, y + 14, "device: " + format_memory(device_bytes), Anchor::end,
                 svg::kAlarm);
  }
  drawing.text(kPlotLeft, bottom + 18, format_seconds(fullest->points.front().time_s),
               Anchor::start, svg::kMuted);
  drawing.text((kPlotLeft + kPlotRight) / 2, bottom + 18, "time since the step began",
               Anchor::middle, svg::kMuted);
  drawing.text(kPlotRight, bottom + 18, format_seconds(fullest->points.back().time_s), Anchor::end,
               svg::kMuted);
  return drawing.finish(bottom + 26);
}

}  // namespace shardsim
