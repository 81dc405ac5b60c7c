#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/svg/figures.hpp"
#include "reports/units.hpp"

namespace shardsim::html {

std::string schedule_part(const Input& input) {
  const ScheduleChart& schedule = input.detail.schedule;
  std::int64_t bars = 0;
  for (const GanttRow& row : schedule.rows) bars += static_cast<std::int64_t>(row.bars.size());
  if (bars == 0) return {};
  Figure chart;
  chart.chart = "schedule";
  chart.caption =
      "What one rank of each stage does through the last step: a row for its compute stream and "
      "for "
      "each communicator. Numbers in bars are microbatches. Zoom with the slider, with Ctrl and "
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

}  // namespace shardsim::html
