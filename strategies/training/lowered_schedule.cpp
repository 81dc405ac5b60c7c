#include "strategies/training/lowered_schedule.hpp"

#include <array>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/validate.hpp"

namespace shardsim {

namespace {

// Stages, data and layouts are made by the options' shape, and only the order of the work by the
// schedule: one of another shape would train something else, or read past the end of a list.
void require_shape(const PipelineSchedule& own, const PipelineShape& asked) {
  struct Dimension {
    const char* name;
    int PipelineShape::*size;
    const char* option;
  };
  constexpr std::array<Dimension, 3> kDimensions = {{
      {"num_ranks", &PipelineShape::num_ranks, "mesh.pp"},
      {"num_chunks", &PipelineShape::num_chunks, "num_chunks"},
      {"num_microbatches", &PipelineShape::num_microbatches, "training.num_microbatches"},
  }};
  std::string differences;
  for (const Dimension& dimension : kDimensions) {
    if (own.shape.*dimension.size == asked.*dimension.size) continue;
    differences += (differences.empty() ? "" : ", ") + std::string(dimension.name) + " is " +
                   std::to_string(own.shape.*dimension.size) + " where " + dimension.option +
                   " is " + std::to_string(asked.*dimension.size);
  }
  if (differences.empty()) return;
  throw UsageError(
      "E0789",
      "own_schedule \"" + own.name + "\" has another shape than the options: " + differences,
      "make the schedule for shape_of(options), or change the options");
}

void require_compute_only(const PipelineSchedule& own) {
  if (!own.is_lowered()) return;
  throw UsageError(
      "E0790", "own_schedule \"" + own.name + "\" contains sends or receives, which are added here",
      "give the schedule as it was before lower(): compute actions only");
}

// A schedule of one's own may have any placement, but edges of the mesh only go around the ring of
// pipeline ranks.
void require_loop(const PipelineSchedule& schedule) {
  if (schedule.placement == Placement::loop || schedule.shape.num_ranks == 1) return;
  throw UsageError("E0785",
                   "the schedule " + schedule.name + " places stages down and up " +
                       std::to_string(schedule.shape.num_ranks) +
                       " ranks, which can be validated and timed, but not run",
                   "place chunk c of rank r at stage c * p + r (Placement::loop)");
}

}  // namespace

PipelineSchedule lowered_schedule(const ParallelOptions& options) {
  const PipelineShape shape = shape_of(options);
  if (options.own_schedule) {
    require_shape(*options.own_schedule, shape);
    require_compute_only(*options.own_schedule);
  }
  const PipelineSchedule schedule =
      options.own_schedule ? *options.own_schedule : make_schedule(options.schedule, shape);
  require_valid(schedule);
  require_loop(schedule);
  return lower(schedule);
}

}  // namespace shardsim
