#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "reports/svg/drawing.hpp"
#include "reports/svg/figures.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

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

std::string to_svg_memory_over_time(const RunDetail& detail, double device_bytes) {
  const auto fullest = std::max_element(
      detail.memory.begin(), detail.memory.end(),
      [](const MemoryCurve& a, const MemoryCurve& b) { return peak_of(a) < peak_of(b); });
  if (fullest == detail.memory.end() || fullest->points.empty()) return {};
  const double full = std::max({device_bytes, peak_of(*fullest), 1.0}) * 1.04;
  svg::Drawing drawing(fmt::format("Memory through the step on rank {} of stage {}, by category",
                                   fullest->rank, fullest->stage));
  const double top = drawing.legend({svg::kMemoryInks.begin(), svg::kMemoryInks.end()}, 2);
  const double bottom = top + kPlotHeight;
  constexpr int kTicks = 4;
  for (int i = 0; i <= kTicks; ++i) {
    const double y = bottom - kPlotHeight * i / kTicks;
    drawing.line(kPlotLeft, y, kPlotRight, y, svg::kLine);
    drawing.text(kPlotLeft - 8, y + 4, format_memory(full * i / kTicks), svg::Anchor::end,
                 svg::kMuted);
  }
  const std::vector<Point> columns = columns_of(*fullest);
  for (std::size_t c = 0; c < kNumMemoryCategories; ++c) {
    drawing.path(area_of(columns, c, full, bottom), svg::kMemoryInks.at(c).fill);
  }
  if (device_bytes > 0) {
    const double y = bottom - device_bytes / full * kPlotHeight;
    drawing.line(kPlotLeft, y, kPlotRight, y, svg::kAlarm, true);
    drawing.text(kPlotRight, y + 14, "device: " + format_memory(device_bytes), svg::Anchor::end,
                 svg::kAlarm);
  }
  drawing.text(kPlotLeft, bottom + 18, format_seconds(fullest->points.front().time_s),
               svg::Anchor::start, svg::kMuted);
  drawing.text((kPlotLeft + kPlotRight) / 2, bottom + 18, "time since the step began",
               svg::Anchor::middle, svg::kMuted);
  drawing.text(kPlotRight, bottom + 18, format_seconds(fullest->points.back().time_s),
               svg::Anchor::end, svg::kMuted);
  return drawing.finish(bottom + 26);
}

}  // namespace shardsim
