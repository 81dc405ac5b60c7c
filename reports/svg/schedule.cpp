#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "reports/svg/drawing.hpp"
#include "reports/svg/figures.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

constexpr double kRowsLeft = 150;
constexpr double kRowsRight = svg::kFigureWidth - 16;
constexpr double kMostHeight = 1100;
// A page of mail takes so many bars; beyond, columns are drawn.
constexpr std::size_t kMostBars = 2000;
constexpr std::size_t kMostPieces = 16'000;

struct Frame {
  double begin_s = 0;  ///< Begin of the step, or of a bar from before it.
  double end_s = 0;
  double top = 0;
  double pitch = 0;  ///< Distance of rows.

  [[nodiscard]] double x(double time_s) const {
    return kRowsLeft + (time_s - begin_s) / (end_s - begin_s) * (kRowsRight - kRowsLeft);
  }
  [[nodiscard]] double bar() const { return pitch * 0.76; }
};

std::vector<svg::Ink> inks_of(const std::vector<std::string>& names) {
  std::vector<svg::Ink> inks;
  std::size_t others = 0;
  for (const std::string& name : names) {
    const auto* const known =
        std::ranges::find(svg::kWorkInks, std::string_view(name), &svg::Ink::name);
    svg::Ink ink = known != svg::kWorkInks.end()
                       ? *known
                       : svg::kOtherInks.at(others++ % svg::kOtherInks.size());
    ink.name = name.c_str();
    inks.push_back(ink);
  }
  return inks;
}

void draw_bars(svg::Drawing& drawing, const GanttRow& row, const std::vector<svg::Ink>& inks,
               const Frame& frame, double y) {
  for (const GanttBar& bar : row.bars) {
    const svg::Ink& ink = inks.at(bar.name);
    const double width = frame.x(bar.end_s) - frame.x(bar.begin_s);
    drawing.rect(frame.x(bar.begin_s), y, std::max(width, 0.2), frame.bar(), ink.fill);
    if (bar.microbatch >= 0 && width >= 14 && frame.bar() >= 11) {
      drawing.text(frame.x(bar.begin_s) + width / 2, y + frame.bar() / 2 + 3.5,
                   std::to_string(bar.microbatch), svg::Anchor::middle, ink.text, 10);
    }
  }
}

// One path per colour takes a fifth of the bytes of as many rectangles.
void draw_columns(svg::Drawing& drawing, const GanttRow& row, const std::vector<svg::Ink>& inks,
                  const Frame& frame, double y, std::size_t columns) {
  std::vector<std::string> paths(inks.size());
  const double step = (kRowsRight - kRowsLeft) / static_cast<double>(columns);
  for (const svg::Piece& piece :
       svg::to_columns(row.bars, inks.size(), frame.begin_s, frame.end_s, columns)) {
    const std::string width = svg::length(step * static_cast<double>(piece.end - piece.begin));
    paths[piece.name] += fmt::format(
        "M{} {}h{}v{}h-{}z", svg::length(kRowsLeft + step * static_cast<double>(piece.begin)),
        svg::length(y), width, svg::length(frame.bar()), width);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].empty()) drawing.path(paths[i], inks[i].fill);
  }
}

void draw_time_axis(svg::Drawing& drawing, const Frame& frame, double bottom) {
  constexpr int kTicks = 5;
  for (int i = 0; i <= kTicks; ++i) {
    const double time = (frame.end_s - frame.begin_s) * i / kTicks;
    const double x = frame.x(frame.begin_s + time);
    drawing.line(x, frame.top, x, bottom, svg::kLine);
    drawing.text(x, bottom + 16, format_seconds(frame.begin_s + time),
                 i == kTicks ? svg::Anchor::end : svg::Anchor::middle, svg::kMuted, 11);
  }
}

}  // namespace

std::vector<svg::Piece> svg::to_columns(const std::vector<GanttBar>& bars, std::size_t names,
                                        double begin_s, double end_s, std::size_t columns) {
  std::vector<double> filled(columns * names, 0.0);  // Share of each column by name.
  const double per_second = static_cast<double>(columns) / (end_s - begin_s);
  const auto last = static_cast<double>(columns);
  for (const GanttBar& bar : bars) {
    const double from = std::clamp((bar.begin_s - begin_s) * per_second, 0.0, last);
    const double to = std::clamp((bar.end_s - begin_s) * per_second, 0.0, last);
    for (auto column = static_cast<std::size_t>(from);
         column < columns && static_cast<double>(column) < to; ++column) {
      const auto left = static_cast<double>(column);
      filled[column * names + bar.name] += std::min(to, left + 1) - std::max(from, left);
    }
  }
  std::vector<Piece> pieces;
  std::vector<double> owed(names + 1, 0.0);  // The last is idle time.
  for (std::size_t column = 0; column < columns; ++column) {
    double idle = 1;
    for (std::size_t name = 0; name < names; ++name) {
      owed[name] += filled[column * names + name];
      idle -= filled[column * names + name];
    }
    owed[names] += idle;
    const auto most = std::max_element(owed.begin(), owed.end());
    *most -= 1;
    const auto name = static_cast<std::size_t>(most - owed.begin());
    if (name == names) continue;
    if (!pieces.empty() && pieces.back().name == name && pieces.back().end == column) {
      ++pieces.back().end;
    } else {
      pieces.push_back({name, column, column + 1});
    }
  }
  return pieces;
}

std::string to_svg_schedule(const RunDetail& detail) {
  const ScheduleChart& chart = detail.schedule;
  std::size_t bars = 0;
  Frame frame;
  for (const GanttRow& row : chart.rows) {
    for (const GanttBar& bar : row.bars) {
      frame.begin_s = std::min(frame.begin_s, bar.begin_s);
      frame.end_s = std::max(frame.end_s, bar.end_s);
      ++bars;
    }
  }
  if (bars == 0 || !(frame.end_s > frame.begin_s)) return {};
  const auto rows = static_cast<double>(chart.rows.size());
  svg::Drawing drawing("The schedule of the last step: one row for each stream of a stage's rank");
  const std::vector<svg::Ink> inks = inks_of(chart.names);
  frame.top = drawing.legend(inks, 2);
  frame.pitch = std::clamp(kMostHeight / rows, 3.0, 22.0);
  const double bottom = frame.top + frame.pitch * rows;
  draw_time_axis(drawing, frame, bottom);
  double y = frame.top;
  double next_label = 0;  // Some rows have no label if rows are lower than text.
  for (const GanttRow& row : chart.rows) {
    if (y >= next_label) {
      drawing.text(kRowsLeft - 8, y + frame.bar() / 2 + 4,
                   fmt::format("stage {} {}", row.stage, row.track), svg::Anchor::end, svg::kInk,
                   11);
      next_label = y + 12;
    }
    if (bars <= kMostBars) {
      draw_bars(drawing, row, inks, frame, y);
    } else {
      draw_columns(drawing, row, inks, frame, y,
                   std::clamp<std::size_t>(kMostPieces / chart.rows.size(), 100, 1600));
    }
    y += frame.pitch;
  }
  return drawing.finish(bottom + 24);
}

}  // namespace shardsim
