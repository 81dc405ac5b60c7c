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

constexpr std::array kSchedules = {
    ScheduleRow{"gpipe", "all forwards, then all backwards", Placement::loop, 1, false, gpipe},
    ScheduleRow{"1f1b", "forward and backward in turn: GPipe's time in less memory",
                Placement::loop, 1, false, one_forward_one_backward},
    ScheduleRow{"interleaved_1f1b", "1f1b over several model chunks per rank: a smaller bubble",
                Placement::loop, kAnyNumChunks, true, interleaved},
    ScheduleRow{"looped_bfs", "gpipe over several model chunks per rank, chunk by chunk",
                Placement::loop, kAnyNumChunks, false, looped_bfs, looped_bfs_sends_in_flight},
    ScheduleRow{"zb_h1", "1f1b with weight gradients moved into the bubble", Placement::loop, 1,
                false, zero_bubble_h1},
};

const ScheduleRow& row_of(std::string_view name) {
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

void require_positive(std::string_view what, int value) {
  if (value >= 1) return;
  throw UsageError("E0752", with_value(what, value) + " of a pipeline must be at least 1",
                   "give a positive number");
}

void require_chunks(const ScheduleRow& row, int chunks) {
  if (chunks > row.max_chunks) {
    throw UsageError("E0753",
                     std::string(row.name) + " runs " + std::to_string(row.max_chunks) +
                         " model chunk(s) per rank, not " + with_value("num_chunks", chunks),
                     row.max_chunks == 1
                         ? "set num_chunks to 1, or take interleaved_1f1b or looped_bfs"
                         : "give each rank fewer chunks");
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

void require_size(const PipelineShape& shape) {
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
  const ScheduleRow& row = row_of(name);
  require_positive("num_ranks", shape.num_ranks);
  require_positive("num_chunks", shape.num_chunks);
  require_positive("num_microbatches", shape.num_microbatches);
  require_chunks(row, shape.num_chunks);
  require_whole_rounds(row, shape);
  require_size(shape);
  PipelineSchedule schedule{std::string(name),
                            shape,
                            row.placement,
                            row.sends_in_flight == nullptr ? kTwoSends : row.sends_in_flight(shape),
                            {}};
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.actions.push_back(row.actions_of_rank(shape, rank));
  }
  return schedule;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleRow& row : kSchedules) names.push_back(row.name);
  return names;
}

std::string_view schedule_summary(std::string_view name) { return row_of(name).summary; }

}  // namespace shardsim
