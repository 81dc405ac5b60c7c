#include <algorithm>

#include <fmt/format.h>

#include "reports/svg/figures.hpp"
#include "reports/svg/stacked_bars.hpp"
#include "reports/units.hpp"

namespace shardsim {

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
