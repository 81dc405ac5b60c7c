#include "sim/programs/program_set.hpp"

#include <utility>

#include "sim/run/rank_programs.hpp"

namespace shardsim {

ProgramSet record_programs(const Experiment& experiment) {
  RankRecording recording = record_ranks(experiment, {}, nullptr);
  if (!recording.programs) {
    throw UsageError("E1377", "the ranks' programs cannot be recorded: " + recording.obstacle,
                     "record a plan: --set execution.tensors=meta");
  }
  const FiberOptions& world = experiment.world();
  return {.name = experiment.scenario().name,
          .settings = {.buffered_sends = world.buffered_sends,
                       .all_reduce_algorithm = world.all_reduce_algorithm,
                       .attention_drops = world.cluster.device.attention_drops},
          .notes = {},
          .programs = std::move(*recording.programs)};
}

}  // namespace shardsim
