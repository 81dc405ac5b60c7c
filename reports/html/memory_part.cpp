#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/svg/figures.hpp"
#include "reports/svg/palette.hpp"
#include "reports/units.hpp"

namespace shardsim::html {

namespace {

std::string stages_figure(const Input& input) {
  if (input.detail.stages.empty()) return {};
  std::vector<Column> columns = {{"stage", false}, {"peak", true}};
  for (const svg::Ink& ink : svg::kMemoryInks) columns.push_back({ink.name, true});
  Table table("Memory of the fullest rank of each stage, at the moment of its peak.",
              std::move(columns));
  std::string label = "Stacked bars of memory at the peak:";
  for (const StageTime& stage : input.detail.stages) {
    const std::string peak = format_memory(static_cast<double>(stage.peak_bytes));
    std::vector<std::string> cells = {std::to_string(stage.stage), peak};
    for (const std::int64_t bytes : stage.at_peak) {
      cells.push_back(format_memory(static_cast<double>(bytes)));
    }
    table.add_row(cells);
    label += fmt::format(" stage {} {};", stage.stage, peak);
  }
  Figure chart;
  chart.chart = "memory";
  chart.caption =
      "Bytes of tensors on the fullest rank of each stage, when it is fullest. What the allocator "
      "and the communication library add on a real device is among the metrics (on device).";
  chart.label = label;
  chart.static_markup = to_svg_memory(input.detail, input.headline.device_memory_bytes);
  return figure(chart) + folded("Numbers as a table", table.markup());
}

std::string over_time_figure(const Input& input) {
  const std::vector<MemoryCurve>& curves = input.detail.memory;
  if (std::all_of(curves.begin(), curves.end(),
                  [](const MemoryCurve& curve) { return curve.points.empty(); })) {
    return {};
  }
  Figure chart;
  chart.chart = "memory-time";
  chart.caption =
      "How memory rises and falls through the step, of one rank of each stage. Choose the stage; "
      "the fullest is shown first.";
  chart.label =
      fmt::format("Stacked areas of memory by category through the step, {} curves", curves.size());
  chart.static_markup = to_svg_memory_over_time(input.detail, input.headline.device_memory_bytes);
  return "<h3>Through the step</h3>\n" + figure(chart);
}

}  // namespace

std::string memory_part(const Input& input) {
  return stages_figure(input) + over_time_figure(input);
}

}  // namespace shardsim::html
