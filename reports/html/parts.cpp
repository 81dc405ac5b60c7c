#include "reports/html/parts.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/stage_groups.hpp"
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
  for (const StageGroup& group : groups_by_time(input.detail.stages)) {
    const StageTime& stage = input.detail.stages[group.first];
    table.add_row({name_of(group, input.detail.stages), format_count(stage.rank),
                   format_seconds(stage.compute_s), format_seconds(stage.exposed_comm_s),
                   format_seconds(stage.bubble_s), format_seconds(stage.host_s)});
  }
  return folded("Numbers as a table", table.markup());
}

std::string stages_figure(const Input& input) {
  if (input.detail.stages.empty()) return {};
  std::vector<Column> columns = {{"", false}, {"peak", true}};
  for (const svg::Ink& ink : svg::kMemoryInks) columns.push_back({ink.name, true});
  Table table("Memory of the fullest rank of each stage, at the moment of its peak.",
              std::move(columns));
  std::string label = "Stacked bars of memory at the peak:";
  for (const StageGroup& group : groups_by_memory(input.detail.stages)) {
    const StageTime& stage = input.detail.stages[group.first];
    const std::string peak = format_memory(stage.peak_bytes);
    const std::string name = name_of(group, input.detail.stages);
    std::vector<std::string> cells = {name, peak};
    for (const std::int64_t bytes : stage.at_peak) {
      cells.push_back(format_memory(bytes));
    }
    table.add_row(cells);
    label += fmt::format(" {} {};", name, peak);
  }
  return figure(
             {.chart = "memory",
              .caption = "Bytes of tensors on the fullest rank of each stage, when it is "
                         "fullest. What the allocator and the communication library add on a "
                         "real device is among the metrics (on device).",
              .label = label,
              .static_markup = to_svg_memory(input.detail, input.headline.device_memory_bytes)}) +
         folded("Numbers as a table", table.markup());
}

std::string over_time_figure(const Input& input) {
  const std::vector<MemoryCurve>& curves = input.detail.memory;
  const auto is_empty = [](const MemoryCurve& curve) { return curve.points.empty(); };
  if (std::ranges::all_of(curves, is_empty)) return {};
  return "<h3>Through the step</h3>\n" +
         figure(
             {.chart = "memory-time",
              .caption = "How memory rises and falls through the step, of one rank of each "
                         "stage. Choose the stage; the fullest is shown first.",
              .label = fmt::format(
                  "Stacked areas of memory by category through the step, {} curves", curves.size()),
              .static_markup =
                  to_svg_memory_over_time(input.detail, input.headline.device_memory_bytes)});
}

constexpr double kTera = 1e12;

std::string rate_of(double flops_per_s) { return format_number(flops_per_s / kTera) + " TFLOP/s"; }

bool is_drawable(const RooflinePoint& point) {
  return point.flops > 0 && point.bytes > 0 && point.time_s > 0;
}

}  // namespace

std::string time_part(const Input& input) {
  if (!input.result.find(metric::kTimeComputeS)) return {};
  const bool has_stages = input.detail.stages.size() > 1;
  Figure chart;
  chart.chart = "breakdown";
  chart.caption =
      "Each moment of a rank's compute stream belongs to one part. Waiting for communication is "
      "the time that computing does not hide; the bubble is time without work, mostly because "
      "another stage is not done.";
  if (has_stages) {
    chart.caption +=
        " The whole step is that of the rank that ends last; below it, of each stage the rank that "
        "ends last. Neighbouring stages are one row where nothing differs by more than 0.5 % of "
        "the "
        "step; its numbers are those of the first.";
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
                   format_seconds(axis.hidden_s), format_traffic(axis.bytes_sent)});
    label += fmt::format(" {} exposed {}, hidden {};", axis.axis, format_seconds(axis.exposed_s),
                         format_seconds(axis.hidden_s));
  }
  return figure({.chart = "axes",
                 .caption = "Exposed communication makes the step longer; hidden communication "
                            "runs behind computing and costs nothing until it no longer fits "
                            "there. Communications at the same time on different streams count "
                            "each.",
                 .label = label}) +
         table.markup();
}

std::string schedule_part(const Input& input) {
  const ScheduleChart& schedule = input.detail.schedule;
  std::int64_t bars = 0;
  for (const GanttRow& row : schedule.rows) bars += static_cast<std::int64_t>(row.bars.size());
  if (bars == 0) return {};
  return figure({.chart = "schedule",
                 .caption =
                     "One rank of each stage in the last step: its compute stream, or that and "
                     "its communicators. The first microbatches are shown; move the slider "
                     "to see more. Numbers in bars are microbatches. Zoom with Ctrl and the "
                     "wheel or two fingers; drag to move.",
                 .label = fmt::format("Gantt chart of the last step with {} rows and {} bars. The "
                                      "figures for each stage are in the table of the section on "
                                      "time.",
                                      schedule.rows.size(), format_count(bars)),
                 .static_markup = to_svg_schedule(input.detail)});
}

std::string memory_part(const Input& input) {
  return stages_figure(input) + over_time_figure(input);
}

std::string roofline_part(const Input& input) {
  const Roofline& roofline = input.detail.roofline;
  if (roofline.points.empty()) return {};
  std::vector<RooflinePoint> points = roofline.points;
  std::ranges::stable_sort(points, std::greater(), &RooflinePoint::time_s);
  double sum = roofline.host_copies_s + roofline.beside_comm_s;
  for (const RooflinePoint& point : points) sum += point.time_s;
  Table table(
      "Operations of one step on the rank that ends last, by name; the times sum to computing.",
      text_and_numbers({"operation", "calls", "time", "share", "rate", "operations per byte"}));
  for (const RooflinePoint& point : points) {
    table.add_row({markup_text(point.name), format_count(point.calls), format_seconds(point.time_s),
                   sum > 0 ? format_share(point.time_s / sum) : "",
                   point.time_s > 0 ? rate_of(point.flops / point.time_s) : "",
                   point.bytes > 0 ? format_number(point.flops / point.bytes) : ""});
  }
  const auto add_rest = [&table, sum](const char* name, double seconds) {
    if (seconds > 0) {
      table.add_row({name, "", format_seconds(seconds), format_share(seconds / sum), "", ""});
    }
  };
  add_rest("copies over the host link", roofline.host_copies_s);
  add_rest("computing longer beside communication", roofline.beside_comm_s);
  const bool has_roof = roofline.peak_flops_per_s > 0 && roofline.memory_bytes_per_s > 0;
  std::string markup;
  const auto drawable = std::ranges::count_if(points, is_drawable);
  if (has_roof && drawable > 0) {
    Figure chart;
    chart.chart = "roofline";
    chart.caption =
        "Each point is all operations of one name; its area is their time. Under the slope the "
        "memory is the limit, under the flat part the arithmetic. The higher a point under the "
        "line, the better the device is used. Both axes are logarithmic.";
    chart.label = fmt::format(
        "Roofline with {} operations under a peak of {} and {} GB/s of memory; as a table below",
        drawable, rate_of(roofline.peak_flops_per_s),
        format_number(roofline.memory_bytes_per_s / 1e9));
    markup = figure(chart);
  }
  return markup + folded("Operations as a table", table.markup());
}

}  // namespace shardsim::html
