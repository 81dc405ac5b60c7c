#include "strategies/pipeline/schedule.hpp"

#include <algorithm>
#include <array>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_table.hpp"

namespace shardsim {

int PipelineSchedule::stage_of(int rank, int chunk) const {
  const bool upwards = placement == Placement::v && chunk % 2 != 0;
  return chunk * shape.num_ranks + (upwards ? shape.num_ranks - 1 - rank : rank);
}

int PipelineSchedule::rank_of(int stage) const {
  const int place = stage % shape.num_ranks;
  const bool upwards = placement == Placement::v && chunk_of(stage) % 2 != 0;
  return upwards ? shape.num_ranks - 1 - place : place;
}

namespace {

template <class Predicate>
bool any_action(const PipelineSchedule& schedule, Predicate predicate) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(), [&](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Action& action) { return predicate(action.kind); });
  });
}

}  // namespace

bool PipelineSchedule::splits_backward() const {
  return any_action(*this, [](ActionKind kind) {
    return kind == ActionKind::backward_input || kind == ActionKind::backward_weight;
  });
}

bool PipelineSchedule::is_lowered() const {
  return any_action(*this, [](ActionKind kind) { return !is_compute(kind); });
}

namespace {

// While rank 0 waits for the first gradient it runs as many forwards as there are ranks on the way
// there and back, itself once.
int there_and_back(const PipelineShape& shape) { return 2 * shape.num_ranks - 1; }
int one_per_stage(const PipelineShape& shape) { return shape.num_ranks * shape.num_chunks; }

constexpr int kDownAndUp = 2;  // Chunks.

constexpr std::array kSchedules = {
    ScheduleRow{
        .name = "gpipe", .summary = "all forwards, then all backwards", .actions_of_rank = gpipe},
    ScheduleRow{.name = "1f1b",
                .summary = "forward and backward in turn: GPipe's time in less memory",
                .actions_of_rank = one_forward_one_backward},
    ScheduleRow{.name = "interleaved_1f1b",
                .summary = "1f1b over several model chunks per rank: a smaller bubble",
                .max_chunks = kAnyNumChunks,
                .whole_rounds = true,
                .actions_of_rank = interleaved},
    ScheduleRow{.name = "looped_bfs",
                .summary = "gpipe over several model chunks per rank, chunk by chunk",
                .max_chunks = kAnyNumChunks,
                .actions_of_rank = looped_bfs,
                .sends_in_flight = looped_bfs_sends_in_flight},
    ScheduleRow{.name = "zb_h1",
                .summary = "1f1b with weight gradients moved into the bubble",
                .actions_of_rank = zero_bubble_h1},
    ScheduleRow{.name = "zb_h2",
                .summary = "zb_h1 with about twice the activations and no bubble within a rank",
                .actions_of_rank = zero_bubble_h2,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "zb_v",
                .summary = "two chunks down and up the ranks: no bubble in the memory of 1f1b",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .actions_of_rank = zero_bubble_v,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "v_half",
                .summary = "half the activations and half the bubble of 1f1b",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .actions_of_all = v_half,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "v_min",
                .summary = "a third of the activations and two thirds of the bubble of 1f1b",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .actions_of_all = v_min,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "dualpipe_v",
                .summary = "forwards overlap with backwards of the other chunk",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .actions_of_rank = dualpipe_v,
                .min_microbatches = one_per_stage},
};

const ScheduleRow& schedule_row_of(std::string_view name) {
  const auto* const row =
      std::find_if(kSchedules.begin(), kSchedules.end(),
                   [&](const ScheduleRow& candidate) { return candidate.name == name; });
  if (row != kSchedules.end()) return *row;
  std::string known;
  for (const ScheduleRow& candidate : kSchedules) {
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  throw UsageError("E0751", "there is no pipeline schedule \"" + std::string(name) + "\"",
                   "schedules are " + known);
}

std::string with_value(std::string_view what, int value) {
  return std::string(what) + " (" + std::to_string(value) + ")";
}

void require_positive_number(std::string_view what, int value) {
  if (value >= 1) return;
  throw UsageError("E0752", with_value(what, value) + " of a pipeline must be at least 1",
                   "give a positive number");
}

void require_chunks(const ScheduleRow& row, int chunks) {
  if (chunks < row.min_chunks) {
    throw UsageError("E0753",
                     std::string(row.name) + " runs " + std::to_string(row.min_chunks) +
                         " model chunk(s) per rank, not " + with_value("num_chunks", chunks),
                     "set num_chunks to " + std::to_string(row.min_chunks));
  }
  if (chunks > row.max_chunks) {
    throw UsageError("E0753",
                     std::string(row.name) + " runs " + std::to_string(row.max_chunks) +
                         " model chunk(s) per rank, not " + with_value("num_chunks", chunks),
                     row.max_chunks == 1
                         ? "set num_chunks to 1, or take interleaved_1f1b or looped_bfs"
                         : "set num_chunks to " + std::to_string(row.max_chunks));
  }
}

void require_whole_rounds(const ScheduleRow& row, const PipelineShape& shape) {
  const int left_over = shape.num_microbatches % shape.num_ranks;
  if (!row.whole_rounds || left_over == 0) return;
  const int below = shape.num_microbatches - left_over;
  throw UsageError("E0754",
                   std::string(row.name) + " runs microbatches in rounds of one per rank: " +
                       with_value("num_microbatches", shape.num_microbatches) +
                       " is not a multiple of " + with_value("num_ranks", shape.num_ranks),
                   "take " + (below > 0 ? std::to_string(below) + " or " : std::string()) +
                       std::to_string(below + shape.num_ranks) +
                       " microbatches, or looped_bfs, which takes any number");
}

void require_microbatches(const ScheduleRow& row, const PipelineShape& shape) {
  const int least = row.min_microbatches == nullptr ? 1 : row.min_microbatches(shape);
  if (shape.num_microbatches >= least) return;
  throw UsageError("E0760",
                   std::string(row.name) + " fills " + with_value("num_ranks", shape.num_ranks) +
                       " with " + std::to_string(least) + " microbatches at least, not " +
                       with_value("num_microbatches", shape.num_microbatches),
                   "take " + std::to_string(least) +
                       " microbatches or more, or 1f1b or zb_h1, which take any number");
}

void require_forwards_fit(const PipelineShape& shape) {
  if (fits_into_memory(shape)) return;
  throw LimitError("E0755",
                   with_value("num_ranks", shape.num_ranks) + " x " +
                       with_value("num_chunks", shape.num_chunks) + " x " +
                       with_value("num_microbatches", shape.num_microbatches) +
                       " is more than the " + std::to_string(kMaxForwards) +
                       " forwards a pipeline schedule may have",
                   "use fewer microbatches: the bubble is long negligible");
}

}  // namespace

PipelineSchedule make_schedule(std::string_view name, const PipelineShape& shape) {
  const ScheduleRow& row = schedule_row_of(name);
  require_positive_number("num_ranks", shape.num_ranks);
  require_positive_number("num_chunks", shape.num_chunks);
  require_positive_number("num_microbatches", shape.num_microbatches);
  require_chunks(row, shape.num_chunks);
  require_whole_rounds(row, shape);
  require_forwards_fit(shape);
  require_microbatches(row, shape);
  PipelineSchedule schedule{std::string(name),
                            shape,
                            row.placement,
                            row.sends_in_flight == nullptr ? kTwoSends : row.sends_in_flight(shape),
                            {},
                            nullptr};
  if (row.actions_of_all != nullptr) {
    schedule.actions = row.actions_of_all(shape);
    return schedule;
  }
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.actions.push_back(row.actions_of_rank(shape, rank));
  }
  return schedule;
}

ScheduleNeeds needs_of(std::string_view name) {
  const ScheduleRow& row = schedule_row_of(name);
  return {row.placement, row.min_chunks, row.max_chunks};
}

int min_microbatches(std::string_view name, const PipelineShape& shape) {
  const ScheduleRow& row = schedule_row_of(name);
  return row.min_microbatches == nullptr ? 1 : row.min_microbatches(shape);
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleRow& row : kSchedules) names.push_back(row.name);
  return names;
}

std::string_view schedule_summary(std::string_view name) { return schedule_row_of(name).summary; }

}  // namespace shardsim
