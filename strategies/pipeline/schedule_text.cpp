#include "strategies/pipeline/schedule_text.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::string_view name_of(Placement placement) { return placement == Placement::v ? "v" : "loop"; }

void pad_to(std::string& text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
}

std::size_t digits(std::size_t number) { return std::to_string(number).size(); }

}  // namespace

std::string padded(std::string text, std::size_t width) {
  pad_to(text, width);
  return text;
}

std::string to_text(const PipelineSchedule& schedule) {
  std::vector<std::vector<std::string>> cells;
  std::size_t width = 0;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    cells.emplace_back();
    for (const Action& action : schedule.actions[rank]) {
      cells.back().push_back(schedule.cell_text(static_cast<int>(rank), action));
      width = std::max(width, cells.back().back().size());
    }
  }
  std::string text = concat("schedule ", schedule.name, ": ", schedule.shape.num_ranks, " ranks, ",
                            schedule.shape.num_chunks, " chunks, ", schedule.shape.num_microbatches,
                            " microbatches, ", name_of(schedule.placement), " placement, ",
                            schedule.sends_in_flight, " sends in flight\n");
  const std::size_t rank_width = digits(cells.empty() ? 0 : cells.size() - 1);
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    std::string line = "rank ";
    line.append(rank_width - digits(rank), ' ');
    line += std::to_string(rank) + ":";
    for (const std::string& cell : cells[rank]) {
      pad_to(line, line.size() + 1);
      const std::size_t end = line.size() + width;
      line += cell;
      if (&cell != &cells[rank].back()) pad_to(line, end);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace shardsim
