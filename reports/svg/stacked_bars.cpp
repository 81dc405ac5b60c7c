#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reports/svg/drawing.hpp"
#include "reports/svg/figures.hpp"
#include "reports/units.hpp"

// Figures of horizontal bars whose parts lie end to end, one bar a line.
namespace shardsim {

namespace svg {

namespace {

struct StackedBar {
  std::string label;
  std::vector<double> parts;  ///< In the order of the inks.
  std::string total;          ///< In words, behind the bar.
};

struct StackedBars {
  std::vector<Ink> inks;
  std::vector<StackedBar> bars;
  double full = 0;  ///< The value as long as a bar can be.
};

constexpr double kLeft = 96;  // Labels stand before it, totals behind the right end.
constexpr double kRight = kFigureWidth - 90;
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
    drawing.text(stacked_bar_x(chart, before) + 8, y + 15, bar.total, Anchor::start, kMuted);
    y += kPitch;
  }
  return y;
}

}  // namespace

}  // namespace svg

namespace {

svg::StackedBar bar_of(std::string label, std::vector<double> seconds) {
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {std::move(label), std::move(seconds), format_seconds(sum)};
}

// The legend omits parts that no bar has.
void leave_out_empty(svg::StackedBars& chart) {
  for (std::size_t part = chart.inks.size(); part-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(part);
    if (std::any_of(chart.bars.begin(), chart.bars.end(),
                    [part](const svg::StackedBar& bar) { return bar.parts[part] > 0; })) {
      continue;
    }
    chart.inks.erase(chart.inks.begin() + at);
    for (svg::StackedBar& bar : chart.bars) bar.parts.erase(bar.parts.begin() + at);
  }
}

}  // namespace

std::string to_svg_breakdown(const Result& result, const RunDetail& detail) {
  if (!result.find(metric::kTimeComputeS)) return {};
  svg::StackedBars chart;
  chart.inks.assign(svg::kTimeInks.begin(), svg::kTimeInks.end());
  std::vector<double> whole;
  for (const MetricRow& part : {metric::kTimeComputeS, metric::kTimeExposedCommS,
                                metric::kTimeBubbleS, metric::kTimeHostS}) {
    whole.push_back(result.number(part).value_or(0));
  }
  chart.bars.push_back(bar_of("whole step", std::move(whole)));
  if (detail.stages.size() > 1) {
    for (const StageTime& stage : detail.stages) {
      chart.bars.push_back(
          bar_of(fmt::format("stage {}", stage.stage),
                 {stage.compute_s, stage.exposed_comm_s, stage.bubble_s, stage.host_s}));
    }
  }
  for (const svg::StackedBar& bar : chart.bars) {
    chart.full = std::max(chart.full, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  }
  leave_out_empty(chart);
  svg::Drawing drawing("Where the time of one step goes, for the whole run and each stage");
  const double y = drawing.legend(chart.inks, 2);
  return drawing.finish(svg::draw_stacked_bars(drawing, chart, y));
}

std::string to_svg_memory(const RunDetail& detail, double device_bytes) {
  if (detail.stages.empty()) return {};
  svg::StackedBars chart;
  chart.inks.assign(svg::kMemoryInks.begin(), svg::kMemoryInks.end());
  chart.full = device_bytes;
  for (const StageTime& stage : detail.stages) {
    const auto peak = static_cast<double>(stage.peak_bytes);
    chart.full = std::max(chart.full, peak);
    chart.bars.push_back(
        {detail.stages.size() > 1 ? fmt::format("stage {}", stage.stage) : "fullest rank",
         std::vector<double>(stage.at_peak.begin(), stage.at_peak.end()), format_memory(peak)});
  }
  svg::Drawing drawing("Memory of the fullest rank of each stage at its peak, by category");
  const double label = drawing.legend(chart.inks, 2) + 10;
  const double top = label + 8;
  const double bottom = svg::draw_stacked_bars(drawing, chart, top);
  if (device_bytes > 0) {
    const double x = svg::stacked_bar_x(chart, device_bytes);
    drawing.line(x, label + 4, x, bottom - 4, svg::kAlarm, true);
    drawing.text(x, label, "device: " + format_memory(device_bytes), svg::Anchor::end, svg::kAlarm);
  }
  return drawing.finish(bottom);
}

}  // namespace shardsim
