#include <algorithm>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "sim/programs/recognised_layout.hpp"

namespace shardsim {

namespace {

// A letter for each block that a rank runs: F and B. Recomputed forwards stand in front of their
// backward and are none.
std::string recorded_letters(const StepFacts& facts, bool recomputes) {
  std::string letters;
  for (const StepEvent& event : facts.events) {
    if (event.kind == StepEventKind::attention) letters += 'F';
    if (event.kind != StepEventKind::attention_backward) continue;
    if (recomputes && !letters.empty() && letters.back() == 'F') letters.pop_back();
    letters += 'B';
  }
  return letters;
}

std::string letters_of(const std::vector<Action>& actions, std::int64_t blocks) {
  std::string letters;
  for (const Action& action : actions) {
    const auto times = static_cast<std::size_t>(blocks);
    if (action.kind == ActionKind::forward) letters.append(times, 'F');
    if (makes_input_gradient(action.kind)) letters.append(times, 'B');
  }
  return letters;
}

// Whole backwards make gradients of weights before they come to attention.
bool splits_backward(const StepFacts& last, const RecognisedBlock& block) {
  const std::size_t end = last.next(StepEventKind::attention_backward, 0);
  return std::none_of(last.events.begin(), last.events.begin() + static_cast<std::ptrdiff_t>(end),
                      [&](const StepEvent& event) { return is_weight_gradient(event, block); });
}

bool runs_as(const PipelineSchedule& schedule, const std::vector<StepFacts>& ranks,
             const RecognisedLayout& layout) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t blocks = layout.layers[rank] / layout.vpp;
    if (blocks * layout.vpp != layout.layers[rank] ||
        letters_of(schedule.actions[rank], blocks) !=
            recorded_letters(ranks[rank], layout.recomputes)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string recognise_schedule(const std::vector<StepFacts>& ranks, const RecognisedLayout& layout,
                               const RecognisedBlock& block, bool is_v) {
  const PipelineShape shape{layout.pp, layout.vpp, static_cast<int>(layout.microbatches)};
  // The first stage waits for nobody, and may do all of its backward as one.
  const bool splits = splits_backward(is_v ? ranks.front() : ranks.back(), block);
  for (const std::string_view name : schedule_names()) {
    const ScheduleRow& row = schedule_row(name);
    const bool may_split = row.backward != BackwardCut::whole;
    if (may_split != splits || (row.placement == Placement::v) != is_v ||
        layout.vpp < row.min_chunks || layout.vpp > row.max_chunks ||
        layout.microbatches < row.least_microbatches(shape) ||
        (row.whole_rounds && layout.microbatches % layout.pp != 0)) {
      continue;
    }
    if (runs_as(make_schedule(name, shape), ranks, layout)) return std::string(name);
  }
  return "";
}

}  // namespace shardsim
