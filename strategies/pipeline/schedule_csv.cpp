#include "strategies/pipeline/schedule_csv.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/kernel/text.hpp"

#include "strategies/pipeline/timeline.hpp"

namespace shardsim {

namespace {

std::string cell_of(const PipelineSchedule& schedule, int rank, Action action) {
  action.overlaps_next = false;  // Said by brackets here.
  return schedule.cell_text(rank, action);
}

}  // namespace

std::string to_csv(const PipelineSchedule& schedule) {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(schedule.actions.size()); ++rank) {
    const std::vector<Action>& cells = schedule.actions[index_of(rank)];
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
      if (cell > 0) text += ",";
      const Action& action = cells[cell];
      const std::string written = cell_of(schedule, rank, action);
      if (!action.overlaps_next || cell + 1 == cells.size()) {
        text += written;
      } else {
        text += "(" + written + ";" + cell_of(schedule, rank, cells[++cell]) + ")OVERLAP_F_B";
      }
    }
    text += "\n";
  }
  return text;
}

namespace {

// The content of one cell, and its place.
struct CsvCell {
  std::vector<StageAction> actions;  // Two of a block.
  int number = 0;                    // From 1; 0: the line.
  std::size_t offset = 0;
  std::size_t length = 0;
};

struct CsvRow {
  std::vector<CsvCell> cells;
  std::size_t offset = 0;
  std::size_t length = 0;
};

void add_problem(ScheduleCsv& result, int line, const CsvCell& cell, std::string what,
                 std::string fix) {
  result.problems.push_back(
      {line, cell.number, cell.offset, cell.length, std::move(what), std::move(fix)});
}

constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::array<std::string_view, 3> kLeftOut = {"UNSHARD", "RESHARD", "REDUCE_GRAD"};
constexpr const char* kCellFix =
    "write stage, action and microbatch, such as 2F0, 1SEND_B3 or (0F4;7B0)OVERLAP_F_B";

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// --- Cells -------------------------------------------------------------------------------------

class CsvReader {
 public:
  CsvReader(std::string_view text, ScheduleCsv& result) : text_(text), result_(result) {}

  std::vector<CsvRow> read() {
    std::size_t end = text_.size();
    while (end > 0 && (text_[end - 1] == '\n' || trimmed(text_.substr(end - 1, 1)).empty())) --end;
    std::vector<CsvRow> rows;
    for (std::size_t begin = 0; begin < end;) {
      const std::size_t stop = std::min(text_.find('\n', begin), end);
      rows.push_back({{}, begin, stop - begin});
      read_row(rows.back(), static_cast<int>(rows.size()));
      begin = stop + 1;
    }
    return rows;
  }

 private:
  void read_row(CsvRow& row, int line) {
    int number = 0;
    bool has_any = false;
    for (const std::string_view part : split_at(text_.substr(row.offset, row.length), ',')) {
      ++number;
      const std::string_view written = trimmed(part);
      if (written.empty()) continue;
      has_any = true;
      CsvCell cell{{}, number, index_of(written.data() - text_.data()), written.size()};
      read_cell(written, line, cell);
      if (!cell.actions.empty()) row.cells.push_back(std::move(cell));
    }
    if (has_any) return;
    add_problem(result_, line, {{}, 0, row.offset, row.length},
                "rank " + std::to_string(line - 1) + " has nothing to do",
                "give every rank a line with its actions");
  }

  void read_cell(std::string_view written, int line, CsvCell& cell) {
    if (written.front() == '(') return read_block(written, line, cell);
    const ActionWords words(written);
    if (std::find(kLeftOut.begin(), kLeftOut.end(), words.kind) != kLeftOut.end() &&
        !words.stage.empty()) {
      ++result_.num_left_out;
      return;
    }
    if (const auto action = words.action()) {
      cell.actions = {*action};
      return;
    }
    if (words.kind == "BW") {
      return add_problem(
          result_, line, cell, "is the old name of a whole backward",
          "write B for BW, and I where this file has B for the gradient of the input");
    }
    add_problem(result_, line, cell, "is no action", kCellFix);
  }

  // "(0F4;7B0)OVERLAP_F_B"
  void read_block(std::string_view written, int line, CsvCell& cell) {
    const std::size_t close = written.find(')');
    const std::string_view inner =
        written.substr(1, close == written.npos ? written.npos : close - 1);
    const std::size_t middle = inner.find(';');
    const std::string_view kind = close == written.npos ? "" : written.substr(close + 1);
    if (middle == inner.npos || trimmed(kind) != kOverlap) {
      return add_problem(result_, line, cell, "is no action", kCellFix);
    }
    const auto forward = ActionWords(trimmed(inner.substr(0, middle))).action();
    const auto backward = ActionWords(trimmed(inner.substr(middle + 1))).action();
    if (!forward || !backward || forward->kind != ActionKind::forward ||
        backward->kind != ActionKind::backward) {
      return add_problem(result_, line, cell, "is no forward and whole backward that overlap",
                         kCellFix);
    }
    cell.actions = {*forward, *backward};
  }

  std::string_view text_;
  ScheduleCsv& result_;
};

// --- Shape and placement -----------------------------------------------------------------------

constexpr int kNoRank = -1;

class CsvShape {
 public:
  CsvShape(const std::vector<CsvRow>& rows, ScheduleCsv& result) : rows_(rows), result_(result) {}

  // Fills the schedule; problems instead, if there are any.
  void fill(const std::string& file) {
    find_shape();
    if (!result_.problems.empty()) return;
    PipelineSchedule& schedule = result_.schedule;
    auto source = std::make_shared<ScheduleSource>();
    source->file = file;
    for (const CsvRow& row : rows_) {
      schedule.actions.emplace_back();
      source->cells.emplace_back();
      for (const CsvCell& cell : row.cells) {
        for (const StageAction& action : cell.actions) {
          schedule.actions.back().push_back(
              make_action(action.kind, schedule.chunk_of(action.stage), action.microbatch));
          source->cells.back().push_back(cell.number);
        }
        if (cell.actions.size() == 2) {
          schedule.actions.back().end()[-2].overlaps_next = true;
        }
      }
    }
    schedule.name = file;
    schedule.source = std::move(source);
    schedule.sends_in_flight = fewest_sends(schedule);
  }

 private:
  template <class Visit>
  void for_each_action(Visit visit) const {
    for (int rank = 0; rank < static_cast<int>(rows_.size()); ++rank) {
      for (const CsvCell& cell : rows_[index_of(rank)].cells) {
        for (const StageAction& action : cell.actions) visit(rank, cell, action);
      }
    }
  }

  void find_shape() {
    const int ranks = static_cast<int>(rows_.size());
    std::int64_t stages = 0;
    std::int64_t microbatches = 0;
    for_each_action([&](int, const CsvCell&, const StageAction& action) {
      stages = std::max<std::int64_t>(stages, std::int64_t{action.stage} + 1);
      microbatches = std::max<std::int64_t>(microbatches, std::int64_t{action.microbatch} + 1);
    });
    if (stages == 0) return whole_problem("the file has no action", kCellFix);
    if (stages > kMaxForwards || microbatches > kMaxForwards ||
        stages * microbatches > kMaxForwards ||
        stages / ranks > std::numeric_limits<std::int16_t>::max()) {
      return whole_problem(std::to_string(stages) + " stages x " + std::to_string(microbatches) +
                               " microbatches are more than the " + std::to_string(kMaxForwards) +
                               " forwards a pipeline schedule may have",
                           "number stages and microbatches from 0 on");
    }
    result_.schedule.shape.num_microbatches = static_cast<int>(microbatches);
    find_ranks(static_cast<int>(stages));
    if (!result_.problems.empty()) return;
    if (stages % ranks != 0) {
      return whole_problem(std::to_string(stages) + " stages cannot be as many on each of " +
                               std::to_string(ranks) + " ranks",
                           "give each rank the same number of stages");
    }
    result_.schedule.shape.num_ranks = ranks;
    result_.schedule.shape.num_chunks = static_cast<int>(stages) / ranks;
    find_placement();
  }

  // At the first line.
  void whole_problem(std::string what, std::string fix) {
    const std::size_t length = rows_.empty() ? 0 : rows_.front().length;
    add_problem(result_, 1, {{}, 0, 0, length}, std::move(what), std::move(fix));
  }

  // The rank with most cells of each stage, the lowest of equals: a few cells in a wrong row are
  // what is wrong, not the row in which they are missed.
  void find_owners(int stages) {
    std::map<std::pair<int, int>, int> cells;  // Stage and rank.
    for_each_action([&](int rank, const CsvCell&, const StageAction& action) {
      ++cells[{static_cast<int>(action.stage), rank}];
    });
    rank_of_.assign(index_of(stages), kNoRank);
    std::vector<int> most(rank_of_.size(), 0);
    for (const auto& [place, count] : cells) {
      const auto stage = index_of(place.first);
      if (count <= most[stage]) continue;
      most[stage] = count;
      rank_of_[stage] = place.second;
    }
  }

  // Every stage is on one rank.
  void find_ranks(int stages) {
    find_owners(stages);
    for_each_action([&](int rank, const CsvCell& cell, const StageAction& action) {
      const int known = rank_of_[index_of(action.stage)];
      if (known == rank) return;
      add_problem(result_, rank + 1, cell,
                  "is of stage " + std::to_string(action.stage) + ", which rank " +
                      std::to_string(known) + " has (line " + std::to_string(known + 1) + ")",
                  "move it to that line: a stage has its weights on one rank");
    });
    for (int stage = 0; stage < stages; ++stage) {
      if (rank_of_[index_of(stage)] != kNoRank) continue;
      whole_problem(
          "stage " + std::to_string(stage) + " of " + std::to_string(stages) + " is on no rank",
          "number stages from 0 on without a gap");
      return;
    }
  }

  [[nodiscard]] std::optional<int> first_elsewhere(Placement placement) {
    result_.schedule.placement = placement;
    for (int stage = 0; stage < static_cast<int>(rank_of_.size()); ++stage) {
      if (result_.schedule.rank_of(stage) != rank_of_[index_of(stage)]) {
        return stage;
      }
    }
    return std::nullopt;
  }

  void find_placement() {
    const std::optional<int> not_v = first_elsewhere(Placement::v);
    const std::optional<int> not_loop = first_elsewhere(Placement::loop);
    if (!not_loop) return;
    result_.schedule.placement = Placement::v;
    if (!not_v) return;
    // The stage up to which the better of the two goes.
    const int stage = std::max(*not_loop, *not_v);
    const int ranks = result_.schedule.shape.num_ranks;
    bool reported = false;
    for_each_action([&](int rank, const CsvCell& cell, const StageAction& action) {
      if (reported || action.stage != stage) return;
      reported = true;
      add_problem(result_, rank + 1, cell,
                  "places stage " + std::to_string(stage) + " on rank " + std::to_string(rank) +
                      ", neither around the ranks, on " + std::to_string(stage % ranks) +
                      ", nor down and up, on " + std::to_string(result_.schedule.rank_of(stage)),
                  "place chunk c of rank r at stage c x " + std::to_string(ranks) +
                      " + r, or every second chunk in the opposite direction");
    });
  }

  const std::vector<CsvRow>& rows_;
  ScheduleCsv& result_;
  std::vector<int> rank_of_;  // By stage.
};

}  // namespace

ScheduleCsv parse_schedule_csv(std::string_view text, const std::string& file) {
  ScheduleCsv result;
  const std::vector<CsvRow> rows = CsvReader(text, result).read();
  if (!result.problems.empty()) return result;
  CsvShape(rows, result).fill(file);
  return result;
}

}  // namespace shardsim
