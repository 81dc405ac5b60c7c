#include "strategies/pipeline/schedule_table.hpp"

#include <algorithm>
#include <array>

#include "sim/kernel/error.hpp"

#include "strategies/named_rows.hpp"

namespace shardsim {

namespace {

// While rank 0 waits for the first gradient it runs as many forwards as there are ranks on the way
// there and back, itself once.
int there_and_back(const PipelineShape& shape) { return 2 * shape.num_ranks - 1; }
int one_per_stage(const PipelineShape& shape) { return shape.num_ranks * shape.num_chunks; }

constexpr int kDownAndUp = 2;  // Chunks.

constexpr std::array kSchedules = {
    ScheduleRow{.name = "gpipe",
                .summary = "all forwards, then all backwards",
                .in_flight = InFlight::all,
                .torchtitan = "GPipe",
                .actions_of_rank = gpipe},
    ScheduleRow{.name = "1f1b",
                .summary = "forward and backward in turn: GPipe's time in less memory",
                .in_flight = InFlight::ranks_to_go,
                .is_default = true,
                .was_measured = true,
                .megatron = "1F1B",
                .torchtitan = "1F1B",
                .deepspeed = "TrainSchedule",
                .actions_of_rank = one_forward_one_backward},
    ScheduleRow{.name = "interleaved_1f1b",
                .summary = "1f1b over several model chunks per rank: a smaller bubble",
                .max_chunks = kAnyNumChunks,
                .with_one_chunk = "it then idles as 1f1b does, with more activations in flight",
                .whole_rounds = true,
                .is_default = true,
                .was_measured = true,
                .megatron = "interleaved 1F1B",
                .torchtitan = "Interleaved1F1B",
                .actions_of_rank = interleaved},
    ScheduleRow{
        .name = "combined_1f1b",
        .summary = "interleaved_1f1b with experts' traffic of each forward under a backward",
        .max_chunks = kAnyNumChunks,
        .with_one_chunk = "it then holds about twice the activations of 1f1b",
        .whole_rounds = true,
        .overlaps = true,
        .is_for_experts = true,
        .was_measured = true,
        .megatron = "combined 1F1B",
        .actions_of_rank = combined},
    ScheduleRow{.name = "looped_bfs",
                .summary = "gpipe over several model chunks per rank, chunk by chunk",
                .max_chunks = kAnyNumChunks,
                .with_one_chunk = "it then is gpipe",
                .torchtitan = "LoopedBFS",
                .actions_of_rank = looped_bfs,
                .sends_in_flight = looped_bfs_sends_in_flight},
    ScheduleRow{.name = "zb_h1",
                .summary = "1f1b with weight gradients moved into the bubble",
                .backward = BackwardCut::split,
                .in_flight = InFlight::ranks_to_go,
                .actions_of_rank = zero_bubble_h1},
    ScheduleRow{.name = "zb_h2",
                .summary = "zb_h1 with about twice the activations and no bubble within a rank",
                .backward = BackwardCut::split,
                .actions_of_rank = zero_bubble_h2,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "zb_v",
                .summary = "two chunks down and up the ranks: no bubble in the memory of 1f1b",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .backward = BackwardCut::split,
                .torchtitan = "ZBVZeroBubble",
                .actions_of_rank = zero_bubble_v,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "v_half",
                .summary = "half the activations and half the bubble of 1f1b",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .backward = BackwardCut::split,
                .actions_of_all = v_half,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "v_min",
                .summary = "a third of the activations and two thirds of the bubble of 1f1b",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .backward = BackwardCut::split,
                .actions_of_all = v_min,
                .min_microbatches = there_and_back},
    ScheduleRow{.name = "dualpipe_v",
                .summary = "forwards overlap with backwards of the other chunk",
                .placement = Placement::v,
                .min_chunks = kDownAndUp,
                .max_chunks = kDownAndUp,
                .backward = BackwardCut::both,
                .overlaps = true,
                .torchtitan = "DualPipeV",
                .actions_of_rank = dualpipe_v,
                .min_microbatches = one_per_stage},
};

template <class Predicate>
const ScheduleRow* first_schedule(Predicate is_it) {
  const auto* const row = std::find_if(kSchedules.begin(), kSchedules.end(), is_it);
  return row == kSchedules.end() ? nullptr : row;
}

}  // namespace

std::int64_t ScheduleRow::least_in_flight(std::int64_t microbatches,
                                          std::int64_t ranks_to_go) const {
  if (in_flight == InFlight::all) return microbatches;
  return in_flight == InFlight::ranks_to_go ? std::min(microbatches, ranks_to_go) : 1;
}

const ScheduleRow& schedule_row(std::string_view name) {
  const ScheduleRow* const row = find_schedule(&ScheduleRow::name, name);
  if (row != nullptr) return *row;
  throw UsageError(
      "E0751", "there is no pipeline schedule \"" + std::string(name) + "\"",
      "schedules are " + schedules_that([](const ScheduleRow&) { return true; }, ", "));
}

const ScheduleRow& default_schedule(bool several_chunks) {
  return *first_schedule([&](const ScheduleRow& row) {
    return row.is_default && row.takes_chunks() == several_chunks;
  });
}

const ScheduleRow& schedule_in(NameElsewhere framework, bool several_chunks) {
  return *first_schedule([&](const ScheduleRow& row) {
    return !(row.*framework).empty() && row.takes_chunks() == several_chunks;
  });
}

const ScheduleRow* find_schedule(NameElsewhere framework, std::string_view name) {
  return first_schedule(
      [&](const ScheduleRow& row) { return !name.empty() && row.*framework == name; });
}

std::string schedules_that(ScheduleTrait has, std::string_view before_last,
                           std::string_view quote) {
  return names_that(kSchedules, has, before_last, quote);
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleRow& row : kSchedules) names.push_back(row.name);
  return names;
}

}  // namespace shardsim
