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

}  // namespace

PipelineSchedule lowered_schedule(const ParallelOptions& options) {
  const PipelineShape shape = shape_of(options);
  if (options.own_schedule) require_shape(*options.own_schedule, shape);
  const PipelineSchedule schedule =
      options.own_schedule ? *options.own_schedule : make_schedule(options.schedule, shape);
  require_valid(schedule);
  return schedule.is_lowered() ? schedule : lower(schedule);
}

}  // namespace shardsim
