#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/svg/drawing.hpp"
#include "reports/svg/figures.hpp"
#include "reports/units.hpp"

namespace shardsim::html {
namespace {

std::string seconds_of(const Input& input, const MetricRow& row) {
  return format_seconds(input.result.number(row).value_or(0));
}

// With one rank's parts they are the same table as the whole.
std::string stages_table(const Input& input) {
  Table table("The parts of the step in time. The whole is the rank that ends last.",
              text_and_numbers({"", "rank", "computing", "waiting for communication",
                                "bubble and idle", "waiting for the host"}));
  table.add_row({"whole step", "", seconds_of(input, metric::kTimeComputeS),
                 seconds_of(input, metric::kTimeExposedCommS),
                 seconds_of(input, metric::kTimeBubbleS), seconds_of(input, metric::kTimeHostS)});
  for (const StageTime& stage : input.detail.stages) {
    table.add_row({fmt::format("stage {}", stage.stage), std::to_string(stage.rank),
                   format_seconds(stage.compute_s), format_seconds(stage.exposed_comm_s),
                   format_seconds(stage.bubble_s), format_seconds(stage.host_s)});
  }
  return folded("Numbers as a table", table.markup());
}

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
  const auto is_empty = [](const MemoryCurve& curve) { return curve.points.empty(); };
  if (std::ranges::all_of(curves, is_empty)) return {};
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

std::string time_part(const Input& input) {
  if (!input.result.find(metric::kTimeComputeS)) return {};
  const bool has_stages = input.detail.stages.size() > 1;
  Figure chart;
  chart.chart = "breakdown";
  chart.caption =
      "Every moment of a rank's compute stream is in exactly one part. Waiting for communication "
      "is "
      "what no computing hides; the bubble is time without work, mostly because another stage is "
      "not done.";
  if (has_stages) {
    chart.caption +=
        " The whole step is that of the rank that ends last; below it, of each stage the rank that "
        "ends last.";
  }
  chart.label = fmt::format(
      "Stacked bars: computing {}, waiting for communication {}, bubble and idle {}, waiting for "
      "the host {}{}",
      seconds_of(input, metric::kTimeComputeS), seconds_of(input, metric::kTimeExposedCommS),
      seconds_of(input, metric::kTimeBubbleS), seconds_of(input, metric::kTimeHostS),
      has_stages ? "; then the same for each stage" : "");
  chart.static_markup = to_svg_breakdown(input.result, input.detail);
  return figure(chart) + stages_table(input);
}

std::string communication_part(const Input& input) {
  if (input.detail.axes.empty()) return {};
  Table table("Communication of one step on the rank that ends last, and what all ranks sent.",
              text_and_numbers({"axis", "exposed", "hidden", "sent, all ranks"}));
  std::string label = "Bars for each axis of parallelism:";
  for (const AxisComm& axis : input.detail.axes) {
    table.add_row({markup_text(axis.axis), format_seconds(axis.exposed_s),
                   format_seconds(axis.hidden_s),
                   format_traffic(static_cast<double>(axis.bytes_sent))});
    label += fmt::format(" {} exposed {}, hidden {};", axis.axis, format_seconds(axis.exposed_s),
                         format_seconds(axis.hidden_s));
  }
  Figure chart;
  chart.chart = "axes";
  chart.caption =
      "Exposed communication makes the step longer; hidden communication runs behind computing and "
      "costs nothing until it no longer fits there. Communications at the same time on different "
      "streams count each.";
  chart.label = label;
  return figure(chart) + table.markup();
}

std::string schedule_part(const Input& input) {
  const ScheduleChart& schedule = input.detail.schedule;
  std::int64_t bars = 0;
  for (const GanttRow& row : schedule.rows) bars += static_cast<std::int64_t>(row.bars.size());
  if (bars == 0) return {};
  Figure chart;
  chart.chart = "schedule";
  chart.caption =
      "One rank of each stage in the last step: a row for its compute stream and for each "
      "communicator. Numbers in bars are microbatches. Zoom with the slider, with Ctrl and "
      "the "
      "wheel or two fingers; drag to move.";
  chart.label = fmt::format(
      "Gantt chart of the last step with {} rows and {} bars. The figures for each stage are in "
      "the "
      "table of the section on time.",
      schedule.rows.size(), format_count(bars));
  chart.static_markup = to_svg_schedule(input.detail);
  return figure(chart);
}

std::string memory_part(const Input& input) {
  return stages_figure(input) + over_time_figure(input);
}

}  // namespace shardsim::html
