#include "strategies/pipeline/timeline_text.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_text.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kMaxColumns = 10'000;

using PictureRow = std::vector<std::string>;

PictureRow draw_rank(const PipelineSchedule& schedule, const Timeline& times, int rank) {
  const auto row = static_cast<std::size_t>(rank);
  PictureRow columns(static_cast<std::size_t>(times.makespan), ".");
  for (std::size_t cell = 0; cell < schedule.actions[row].size(); ++cell) {
    const Action& action = schedule.actions[row][cell];
    const ActionSpan& span = times.spans[row][cell];
    if (!is_compute(action.kind)) continue;
    for (std::int64_t time = span.start; time < span.end; ++time) {
      columns[static_cast<std::size_t>(time)] =
          time == span.start ? to_text(action, schedule.stage_of(rank, action.chunk)) : "---";
    }
  }
  return columns;
}

}  // namespace

std::string to_picture(const PipelineSchedule& schedule, const Timeline& times) {
  if (times.makespan > kMaxColumns) {
    throw LimitError("E0759",
                     "a picture of " + std::to_string(times.makespan) +
                         " units of time is wider than " + std::to_string(kMaxColumns),
                     "give the costs of the schedule in a larger unit");
  }
  std::vector<PictureRow> rows = {{}};
  std::vector<std::string> labels = {"time"};
  for (std::int64_t time = 0; time < times.makespan; ++time) {
    rows.front().push_back(std::to_string(time));
  }
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    rows.push_back(draw_rank(schedule, times, rank));
    labels.push_back("rank " + std::to_string(rank));
  }
  std::size_t width = 0;
  for (const PictureRow& row : rows) {
    for (const std::string& column : row) width = std::max(width, column.size());
  }
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::string line = padded(labels[row], labels.back().size());
    for (const std::string& column : rows[row]) line += " " + padded(column, width);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace shardsim
