#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "reports/svg/figures.hpp"
#include "reports/svg/stacked_bars.hpp"
#include "reports/units.hpp"

namespace shardsim {

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

}  // namespace shardsim
