#include "strategies/pipeline/validate.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "sim/kernel/diagnosis.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/protocol.hpp"
#include "strategies/pipeline/schedule_text.hpp"

namespace shardsim {

namespace {

// A schedule with its sends and receives, and names of its cells for a reader who knows only the
// original schedule.
struct View {
  const PipelineSchedule& schedule;
  const PipelineSchedule& known;
  const std::vector<std::vector<int>>* origins = nullptr;  // Null: its own cells.

  [[nodiscard]] const Action& action(const Cell& cell) const {
    return schedule.actions[index_of(cell.rank)][index_of(cell.cell)];
  }
  [[nodiscard]] int known_cell(const Cell& cell) const {
    if (origins == nullptr) return cell.cell;
    return (*origins)[index_of(cell.rank)][index_of(cell.cell)];
  }
  // "rank 1, cell 3 (1F0)"
  [[nodiscard]] std::string describe(const Cell& cell) const {
    return concat("rank ", cell.rank, ", cell ", cell_number(known, cell.rank, known_cell(cell)),
                  " (", schedule.cell_text(cell.rank, action(cell)), ")");
  }
};

// --- A cycle of waiting ranks -----------------------------------------------------------------

std::optional<ScheduleProblem> find_deadlock(const View& view) {
  const std::vector<StuckRank> all_stuck = find_stuck_ranks(view.schedule);
  if (all_stuck.empty()) return std::nullopt;
  std::map<int, StuckRank> by_rank;
  for (const StuckRank& stuck : all_stuck) by_rank.emplace(stuck.at.rank, stuck);
  // Every stuck rank waits for one that is stuck, too; so the way from any of them ends in a
  // cycle.
  std::vector<int> way = {all_stuck.front().at.rank};
  std::vector<int>::iterator begin;
  for (;;) {
    const int next = by_rank.at(way.back()).on.rank;
    begin = std::find(way.begin(), way.end(), next);
    if (begin != way.end()) break;
    way.push_back(next);
  }
  const std::vector<int> cycle(begin, way.end());
  const int first = *std::min_element(cycle.begin(), cycle.end());
  const Cell& at = by_rank.at(first).at;
  ScheduleProblem problem{first, view.known_cell(at), {}, {}};
  problem.what = concat(view.schedule.cell_text(first, view.action(at)), " waits in a cycle of ",
                        cycle.size(), cycle.size() == 1 ? " rank" : " ranks");
  for (int rank = first;;) {
    const StuckRank& stuck = by_rank.at(rank);
    problem.cycle.push_back(view.describe(stuck.at) + " waits for " + view.describe(stuck.on));
    rank = stuck.on.rank;
    if (rank == first) return problem;
  }
}

// --- The order on edges ------------------------------------------------------------------------

// Cells at both ends of an edge, in the order of their rows.
struct EdgeEnds {
  int from_rank = 0;
  int to_rank = 0;
  std::vector<int> sends;
  std::vector<int> receives;
};

// By edge_of; those without transfers are empty.
std::vector<EdgeEnds> edges_of(const PipelineSchedule& schedule) {
  std::vector<EdgeEnds> edges(num_edges(schedule.shape.num_ranks));
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    const std::vector<Action>& cells = schedule.actions[index_of(rank)];
    for (int cell = 0; cell < static_cast<int>(cells.size()); ++cell) {
      const Action& action = cells[index_of(cell)];
      const std::optional<Message> message = message_of(schedule, rank, action);
      if (!message) continue;
      EdgeEnds& ends = edges[edge_of(*message, schedule.shape.num_ranks)];
      ends.from_rank = message->from_rank;
      ends.to_rank = message->to_rank;
      (is_send(action.kind) ? ends.sends : ends.receives).push_back(cell);
    }
  }
  return edges;
}

std::optional<ScheduleProblem> check_edge(const View& view, const EdgeEnds& ends) {
  const auto message_at = [&](const Cell& cell) {
    return message_of(view.schedule, cell.rank, view.action(cell));
  };
  // Both ends name the same transfers (check_cells), so only their order can differ.
  for (std::size_t i = 0; i < ends.receives.size(); ++i) {
    const Cell receive{ends.to_rank, ends.receives[i]};
    const Cell send{ends.from_rank, ends.sends[i]};
    if (message_at(receive) == message_at(send)) continue;
    return ScheduleProblem{
        receive.rank,
        view.known_cell(receive),
        concat(view.schedule.cell_text(receive.rank, view.action(receive)), " is transfer ", i,
               " of its edge, but there ", view.describe(send), " is sent"),
        {}};  // The same cause shifts later ones.
  }
  return std::nullopt;
}

// Problems by direction, sending rank, receiving rank.
std::vector<ScheduleProblem> check_edges(const View& view) {
  std::vector<EdgeEnds> edges = edges_of(view.schedule);
  std::vector<ScheduleProblem> problems;
  for (std::size_t first = 0; first < edges.size(); first += 2) {
    EdgeEnds& one = edges[first];
    EdgeEnds& other = edges[first + 1];
    if (other.to_rank < one.to_rank) std::swap(one, other);
    for (const EdgeEnds& ends : {std::cref(one), std::cref(other)}) {
      if (auto problem = check_edge(view, ends)) problems.push_back(std::move(*problem));
    }
  }
  return problems;
}

std::vector<ScheduleProblem> check_protocol(const View& view) {
  std::vector<ScheduleProblem> problems = check_edges(view);
  if (problems.empty()) {
    if (auto deadlock = find_deadlock(view)) problems.push_back(std::move(*deadlock));
  }
  return problems;
}

}  // namespace

std::vector<ScheduleProblem> validate(const PipelineSchedule& schedule) {
  std::vector<ScheduleProblem> problems = check_cells(schedule);
  if (!problems.empty()) return problems;
  if (schedule.is_lowered()) return check_protocol({schedule, schedule});
  const LoweredSchedule lowered = lower_with_origins(schedule);
  std::vector<ScheduleProblem> found =
      check_protocol({lowered.schedule, schedule, &lowered.origins});
  // A schedule that runs under the protocol runs without it. Otherwise its order may be wrong
  // already: a cycle of results is easier to understand than one of transfers.
  if (found.empty()) return found;
  if (auto deadlock = find_deadlock({schedule, schedule})) return {std::move(*deadlock)};
  return found;
}

// --- Text --------------------------------------------------------------------------------------

namespace {

constexpr int kCellsAround = 3;

// Ranks and cells around a problem.
struct Window {
  const PipelineSchedule& schedule;
  const ScheduleProblem& problem;

  [[nodiscard]] int first_rank() const { return std::max(0, problem.rank - 1); }
  [[nodiscard]] int end_rank() const {
    return std::min(static_cast<int>(schedule.actions.size()), problem.rank + 2);
  }
  [[nodiscard]] int first_cell() const { return std::max(0, problem.cell - kCellsAround); }
  [[nodiscard]] int end_cell() const { return problem.cell + kCellsAround + 1; }

  // The cell's text, or "-" where the row has ended.
  [[nodiscard]] std::string text(int rank, int cell) const {
    const std::vector<Action>& cells = schedule.actions[index_of(rank)];
    const bool exists = cell < static_cast<int>(cells.size());
    std::string shown = exists ? schedule.cell_text(rank, cells[index_of(cell)]) : "-";
    const bool is_marked = rank == problem.rank && cell == problem.cell;
    return is_marked ? "[" + shown + "]" : " " + shown + " ";
  }
  [[nodiscard]] std::size_t width() const {
    std::size_t widest = 0;
    for (int rank = first_rank(); rank < end_rank(); ++rank) {
      for (int cell = first_cell(); cell < end_cell(); ++cell) {
        widest = std::max(widest, text(rank, cell).size());
      }
    }
    return widest;
  }
  [[nodiscard]] std::string row(int rank) const {
    std::string line;
    for (int cell = first_cell(); cell < end_cell(); ++cell) {
      line += padded(text(rank, cell), width());
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }
};

std::string headline(const PipelineSchedule& schedule, const ScheduleProblem& problem) {
  const std::string cell =
      "cell " + std::to_string(cell_number(schedule, problem.rank, problem.cell));
  const std::string rank = "rank " + std::to_string(problem.rank);
  if (schedule.source != nullptr) {
    return concat(schedule.source->file, ":", problem.rank + 1, ", ", cell,
                  ": the pipeline schedule is wrong at ", rank, ": ", problem.what);
  }
  return "pipeline schedule " + schedule.name + " is wrong at " + rank + ", " + cell + ": " +
         problem.what;
}

}  // namespace

std::string explain(const PipelineSchedule& schedule, const ScheduleProblem& problem) {
  const Window window{schedule, problem};
  std::string text = headline(schedule, problem) + "\n";
  for (const std::string& link : problem.cycle) text += "  " + link + "\n";
  const std::size_t label = std::string("rank :").size() + std::to_string(problem.rank + 1).size();
  std::string numbers = padded("cell", label);
  for (int cell = window.first_cell(); cell < window.end_cell(); ++cell) {
    numbers +=
        padded(" " + std::to_string(cell_number(schedule, problem.rank, cell)), window.width());
  }
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  text += "  " + numbers + "\n";
  for (int rank = window.first_rank(); rank < window.end_rank(); ++rank) {
    text += "  " + padded("rank " + std::to_string(rank) + ":", label) + window.row(rank) + "\n";
  }
  return text;
}

void require_valid(const PipelineSchedule& schedule) {
  const std::vector<ScheduleProblem> problems = validate(schedule);
  if (problems.empty()) return;
  const ScheduleProblem& problem = problems.front();
  const Window window{schedule, problem};
  Diagnosis diagnosis;
  diagnosis.code = problem.cycle.empty() ? "SCHEDULE_WRONG" : "SCHEDULE_DEADLOCK";
  diagnosis.summary = headline(schedule, problem);
  diagnosis.cycle = problem.cycle;
  for (int rank = window.first_rank(); rank < window.end_rank(); ++rank) {
    diagnosis.sides.push_back(
        {{rank},
         concat("from cell ", cell_number(schedule, rank, window.first_cell()), ":",
                window.row(rank)),
         {}});
  }
  diagnosis.hint = (schedule.source != nullptr ? "correct the file"
                                               : "correct the function that makes this schedule") +
                   std::string("; ranks are pipeline ranks");
  // validate() finds a cycle of results before one of transfers; the latter names a send.
  const bool waits_to_send =
      std::any_of(problem.cycle.begin(), problem.cycle.end(),
                  [](const std::string& link) { return link.find("SEND_") != link.npos; });
  if (waits_to_send) {
    diagnosis.hint = concat("reorder it, or raise its sends_in_flight (", schedule.sends_in_flight,
                            "); ranks are pipeline ranks");
  }
  if (problems.size() > 1) {
    diagnosis.hint += " (this is the first of " + std::to_string(problems.size()) + " problems)";
  }
  throw CommunicationError(std::move(diagnosis));
}

}  // namespace shardsim
