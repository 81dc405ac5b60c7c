#include <algorithm>
#include <array>
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

}  // namespace

std::string to_svg_breakdown(const Result& result, const RunDetail& detail) {
  if (!result.find("time.compute_s")) return {};
  svg::StackedBars chart;
  chart.inks.assign(svg::kTimeInks.begin(), svg::kTimeInks.end());
  std::vector<double> whole;
  for (const char* part : {"compute_s", "exposed_comm_s", "bubble_s", "host_s"}) {
    whole.push_back(result.number(fmt::format("time.{}", part)).value_or(0));
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
  svg::Drawing drawing("Where the time of one step goes, for the whole run and each stage");
  const double y = drawing.legend(chart.inks, 2);
  return drawing.finish(svg::draw_stacked_bars(drawing, chart, y));
}

}  // namespace shardsim
