#include <cstdint>
#include <optional>
#include <utility>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_row.hpp"
#include "strategies/pipeline/validate.hpp"

namespace shardsim {

int cell_number(const PipelineSchedule& schedule, int rank, int cell) {
  if (schedule.source == nullptr) return cell;
  const std::vector<int>& numbers = schedule.source->cells[index_of(rank)];
  if (cell < static_cast<int>(numbers.size())) return numbers[index_of(cell)];
  return (numbers.empty() ? 0 : numbers.back()) + 1;
}

namespace {

constexpr int kNowhere = -1;

class RowChecker {
 public:
  RowChecker(const PipelineSchedule& schedule, int rank, bool is_lowered,
             std::vector<ScheduleProblem>& problems)
      : schedule_(schedule),
        rank_(rank),
        is_lowered_(is_lowered),
        cells_(schedule.actions[index_of(rank)]),
        problems_(problems),
        places_(index_of(kNumActionKinds) * index_of(schedule.shape.num_chunks) *
                    index_of(schedule.shape.num_microbatches),
                kNowhere) {}

  void check() {
    for (int cell = 0; cell < static_cast<int>(cells_.size()); ++cell) enter(cell);
    for (int chunk = 0; chunk < schedule_.shape.num_chunks; ++chunk) {
      for (int m = 0; m < schedule_.shape.num_microbatches; ++m) {
        check_presence(chunk, m);
        check_order(chunk, m);
        if (is_lowered_) check_messages(chunk, m);
      }
    }
  }

 private:
  [[nodiscard]] bool is_known(const Action& action) const {
    return action.chunk >= 0 && action.chunk < schedule_.shape.num_chunks &&
           action.microbatch >= 0 && action.microbatch < schedule_.shape.num_microbatches;
  }
  [[nodiscard]] int& place_of(const Action& action) {
    const int chunk = static_cast<int>(action.kind) * schedule_.shape.num_chunks + action.chunk;
    return places_[index_of(chunk) * index_of(schedule_.shape.num_microbatches) +
                   index_of(action.microbatch)];
  }
  [[nodiscard]] std::string text(const Action& action) const {
    return schedule_.cell_text(rank_, action);
  }
  [[nodiscard]] std::string in_cell(int cell) const {
    return " (cell " + std::to_string(cell_number(schedule_, rank_, cell)) + ")";
  }
  void report(int cell, std::string what) {
    // A missing action has no cell of its own.
    const int place = cell == kNowhere ? static_cast<int>(cells_.size()) : cell;
    problems_.push_back({rank_, place, std::move(what), {}});
  }

  void enter(int cell) {
    const Action& action = cells_[index_of(cell)];
    if (!is_known(action)) {
      report(cell, text(action) + " does not exist: the rank has " +
                       std::to_string(schedule_.shape.num_chunks) + " chunks and there are " +
                       std::to_string(schedule_.shape.num_microbatches) + " microbatches");
      return;
    }
    if (!is_compute(action.kind) && !message_of(schedule_, rank_, action)) {
      report(cell, text(action) +
                       " has no other rank to talk to: it is at an end of the pipeline, "
                       "or the next stage is on this rank");
      return;
    }
    if (action.overlaps_next) check_block(cell);
    int& place = place_of(action);
    if (place != kNowhere) {
      report(cell, text(action) + " comes twice, first" + in_cell(place));
      return;
    }
    place = cell;
  }

  // A B of the same microbatch would wait for the F that it is to run beside.
  void check_block(int cell) {
    const Action& first = cells_[index_of(cell)];
    const auto next = index_of(cell) + 1;
    if (first.kind == ActionKind::forward && next < cells_.size() &&
        cells_[next].kind == ActionKind::backward && !cells_[next].overlaps_next &&
        cells_[next].microbatch != first.microbatch) {
      return;
    }
    report(cell, text(first) + " cannot overlap with " +
                     (next < cells_.size() ? text(cells_[next]) : "the end of the row") +
                     ": a forward overlaps with a whole backward of another microbatch");
  }

  // The B of a microbatch, or its I.
  [[nodiscard]] Action backward_of(int chunk, int m) {
    const Action whole = make_action(ActionKind::backward, chunk, m);
    return place_of(whole) != kNowhere ? whole : make_action(ActionKind::backward_input, chunk, m);
  }

  void check_presence(int chunk, int m) {
    const Action f = make_action(ActionKind::forward, chunk, m);
    const Action b = make_action(ActionKind::backward, chunk, m);
    const Action i = make_action(ActionKind::backward_input, chunk, m);
    const Action w = make_action(ActionKind::backward_weight, chunk, m);
    const int back = place_of(backward_of(chunk, m));
    if (place_of(f) == kNowhere) {
      report(back != kNowhere ? back : place_of(w), text(f) + " is missing");
    }
    if (back == kNowhere) {
      report(place_of(f) != kNowhere ? place_of(f) : place_of(w),
             text(b) + " is missing (or " + text(i) + " and " + text(w) + ")");
    }
    if (place_of(b) != kNowhere) {
      for (const Action& half : {i, w}) {
        if (place_of(half) == kNowhere) continue;
        report(place_of(half),
               text(half) + " is done already by " + text(b) + in_cell(place_of(b)));
      }
    } else if (place_of(i) != kNowhere && place_of(w) == kNowhere) {
      report(place_of(i), text(w) + " is missing");
    }
  }

  // Reports `later` if it stands before `earlier`. Missing actions have been reported.
  void check_pair(const Action& earlier, const Action& later) {
    const int before = place_of(earlier);
    const int after = place_of(later);
    if (before == kNowhere || after == kNowhere || before < after) return;
    report(after, text(later) + " comes before " + text(earlier) + in_cell(before));
  }

  [[nodiscard]] bool is_here(int stage) const {
    return stage >= 0 && stage < schedule_.num_stages() && schedule_.rank_of(stage) == rank_;
  }

  void check_order(int chunk, int m) {
    const Action f = make_action(ActionKind::forward, chunk, m);
    const Action back = backward_of(chunk, m);
    check_pair(f, back);
    check_pair(make_action(ActionKind::backward_input, chunk, m),
               make_action(ActionKind::backward_weight, chunk, m));
    const int stage = schedule_.stage_of(rank_, chunk);
    if (is_here(stage - 1)) {
      check_pair(make_action(ActionKind::forward, schedule_.chunk_of(stage - 1), m), f);
    }
    if (is_here(stage + 1)) check_pair(backward_of(schedule_.chunk_of(stage + 1), m), back);
  }

  void check_messages(int chunk, int m) {
    check_message(make_action(ActionKind::forward, chunk, m), ActionKind::recv_forward,
                  ActionKind::send_forward);
    check_message(backward_of(chunk, m), ActionKind::recv_backward, ActionKind::send_backward);
  }

  void check_message(const Action& action, ActionKind receive, ActionKind send) {
    const Action in = make_action(receive, action.chunk, action.microbatch);
    const Action out = make_action(send, action.chunk, action.microbatch);
    if (message_into(schedule_, rank_, action)) {
      if (place_of(in) == kNowhere) report(place_of(action), text(in) + " is missing");
      check_pair(in, action);
    }
    if (message_out_of(schedule_, rank_, action)) {
      if (place_of(out) == kNowhere) report(place_of(action), text(out) + " is missing");
      check_pair(action, out);
    }
  }

  const PipelineSchedule& schedule_;
  int rank_;
  bool is_lowered_;
  const std::vector<Action>& cells_;
  std::vector<ScheduleProblem>& problems_;
  std::vector<int> places_;  // The cell of an action, by kind, chunk, microbatch.
};

// A problem of the table as a whole; it makes checks of cells useless.
std::optional<ScheduleProblem> check_table(const PipelineSchedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  const std::string size = std::to_string(shape.num_ranks) + " ranks, " +
                           std::to_string(shape.num_chunks) + " chunks and " +
                           std::to_string(shape.num_microbatches) + " microbatches";
  const auto problem = [](int rank, int cell, std::string what) {
    return ScheduleProblem{rank, cell, std::move(what), {}};
  };
  if (schedule.sends_in_flight < 1) return problem(0, 0, "no send may be in flight at all");
  if (shape.num_ranks < 1 || shape.num_chunks < 1 || shape.num_microbatches < 1 ||
      shape.num_chunks > kAnyNumChunks || !fits_into_memory(shape)) {
    return problem(0, 0, size + " are no pipeline");
  }
  if (schedule.actions.size() != index_of(shape.num_ranks)) {
    return problem(0, 0,
                   "there are " + std::to_string(schedule.actions.size()) + " rows for " + size);
  }
  const std::int64_t forwards = std::int64_t{shape.num_chunks} * shape.num_microbatches;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const std::size_t cells = schedule.actions[index_of(rank)].size();
    if (static_cast<std::int64_t>(cells) >= forwards) continue;
    return problem(rank, static_cast<int>(cells),
                   "the row has " + std::to_string(cells) + " cells for " +
                       std::to_string(forwards) + " forwards and their backwards");
  }
  return std::nullopt;
}

}  // namespace

std::vector<ScheduleProblem> check_cells(const PipelineSchedule& schedule) {
  if (auto problem = check_table(schedule)) return {std::move(*problem)};
  std::vector<ScheduleProblem> problems;
  const bool is_lowered = schedule.is_lowered();
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    RowChecker(schedule, rank, is_lowered, problems).check();
  }
  return problems;
}

}  // namespace shardsim
