#include "strategies/pipeline/schedule.hpp"

#include <algorithm>
#include <array>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "strategies/pipeline/schedule_row.hpp"

namespace shardsim {

namespace {

constexpr std::array<std::string_view, kNumActionKinds> kMnemonics = {
    "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
constexpr std::string_view kDecimalDigits = "0123456789";

}  // namespace

std::string_view mnemonic(ActionKind kind) { return kMnemonics.at(static_cast<std::size_t>(kind)); }

std::string to_text(const Action& action, int stage) {
  return std::to_string(stage) + std::string(mnemonic(action.kind)) +
         std::to_string(action.microbatch) + (action.overlaps_next ? "&" : "");
}

ActionWords::ActionWords(std::string_view cell) {
  const std::size_t begin = std::min(cell.find_first_not_of(kDecimalDigits), cell.size());
  const std::size_t end = std::max(begin, cell.find_last_not_of(kDecimalDigits) + 1);
  stage = cell.substr(0, begin);
  kind = cell.substr(begin, end - begin);
  microbatch = cell.substr(end);
}

std::optional<StageAction> ActionWords::action() const {
  const std::optional<int> stage_number = parse_index(stage);
  const std::optional<int> microbatch_number = parse_index(microbatch);
  const auto* const found = std::find(kMnemonics.begin(), kMnemonics.end(), kind);
  if (!stage_number || !microbatch_number || found == kMnemonics.end()) return std::nullopt;
  return StageAction{static_cast<ActionKind>(found - kMnemonics.begin()), *stage_number,
                     *microbatch_number};
}

std::optional<int> parse_index(std::string_view digits) {
  const auto value = parse_number<int>(digits);
  return value && *value >= 0 ? value : std::nullopt;
}

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

bool PipelineSchedule::has_blocks() const {
  return std::ranges::any_of(actions, [](const std::vector<Action>& row) {
    return std::ranges::any_of(row, [](const Action& action) { return action.overlaps_next; });
  });
}

bool PipelineSchedule::is_lowered() const {
  return any_action(*this, [](ActionKind kind) { return !is_compute(kind); });
}

namespace {

std::string with_value(std::string_view what, int value) {
  return std::string(what) + " (" + std::to_string(value) + ")";
}

void require_positive_number(std::string_view what, int value) {
  if (value >= 1) return;
  throw UsageError("E0752", with_value(what, value) + " of a pipeline must be at least 1",
                   "give a positive number");
}

void require_chunks(const ScheduleRow& row, int chunks) {
  const int nearest = std::clamp(chunks, row.min_chunks, row.max_chunks);
  if (chunks == nearest) return;
  throw UsageError("E0753",
                   std::string(row.name) + " runs " + std::to_string(nearest) +
                       " model chunk(s) per rank, not " + with_value("num_chunks", chunks),
                   "set num_chunks to " + std::to_string(nearest) +
                       (row.max_chunks == 1 ? ", or take " + schedules_that(takes_chunks) : ""));
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
                       std::to_string(below + shape.num_ranks) + " microbatches, or " +
                       schedules_that(takes_chunks_of_any_batch) + ", which takes any number");
}

void require_microbatches(const ScheduleRow& row, const PipelineShape& shape) {
  const int least = row.least_microbatches(shape);
  if (shape.num_microbatches >= least) return;
  throw UsageError("E0760",
                   std::string(row.name) + " fills " + with_value("num_ranks", shape.num_ranks) +
                       " with " + std::to_string(least) + " microbatches at least, not " +
                       with_value("num_microbatches", shape.num_microbatches),
                   "take " + std::to_string(least) + " microbatches or more, or " +
                       schedules_that(is_frugal) + ", which take any number");
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
  const ScheduleRow& row = schedule_row(name);
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

}  // namespace shardsim
