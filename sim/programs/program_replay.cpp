#include "sim/programs/program_replay.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/last_rank.hpp"

#include "backends/program/program_tables.hpp"

#include "scenarios/presets.hpp"
#include "sim/run/metrics.hpp"

namespace shardsim {

namespace {

// The number of steps if the programs that begin the last of them end it, and there are such; else
// 0.
std::int64_t num_steps_of(const RankPrograms& programs) {
  using Kind = ProgramMark::Kind;
  const ProgramTables& tables = *programs.programs.front().tables;
  std::int64_t steps = 0;
  for (std::uint32_t row = 0; row < tables.num_marks(); ++row) {
    steps = std::max(steps, tables.mark(row).step + 1);
  }
  const auto marks = [&](const RankProgram& program, Kind kind) {
    return std::ranges::any_of(program.steps, [&](const ProgramStep& step) {
      if (step.kind != ProgramStep::Kind::mark) return false;
      const ProgramMark& mark = tables.mark(step.row);
      return mark.kind == kind && mark.step == steps - 1;
    });
  };
  bool some = false;  // A rank may have left before the last step.
  for (const RankProgram& program : programs.programs) {
    const bool begins = marks(program, Kind::step_begins);
    if (begins != marks(program, Kind::step_ends)) return 0;
    some |= begins;
  }
  return some ? steps : 0;
}

TimeSplit difference(const TimeSplit& end, const TimeSplit& begin) {
  return {.compute = end.compute - begin.compute,
          .host = end.host - begin.host,
          .exposed_comm = end.exposed_comm - begin.exposed_comm,
          .bubble = end.bubble - begin.bubble};
}

// The device's time of computing, by its source.
void add_computing(const ProgramSet& set, const ProgramReplayOptions& options,
                   ProgramReplay& replay) {
  const RankPrograms& programs = set.programs;
  const ProgramTables& tables = *programs.programs.front().tables;
  for (std::size_t i = 0; i < programs.programs.size(); ++i) {
    const auto ranks =
        static_cast<double>(std::ranges::count(programs.of_rank, static_cast<int>(i)));
    for (const ProgramStep& step : programs.programs[i].steps) {
      if (step.kind == ProgramStep::Kind::compute) {
        const Time price = options.cluster.device.price(tables.operation(step.row));
        replay.priced_s += ranks * price.seconds();
      } else if (step.kind == ProgramStep::Kind::hole) {
        replay.taken_over_s += ranks * tables.hole(step.row).device.seconds() * options.hole_factor;
      }
    }
  }
}

}  // namespace

Cluster machine_of_ranks(int ranks, const Experiment& machine) {
  Cluster cluster = machine.world().cluster;
  if (cluster.num_ranks() == ranks) return cluster;
  if (cluster.faults != nullptr) {
    throw UsageError("E1380",
                     fmt::format("the machine has faults and {} ranks, the programs have {}",
                                 cluster.num_ranks(), ranks),
                     "take a machine of as many ranks, or one without faults");
  }
  // A part of one node has that part of its network cards, too.
  const int per_node = std::min(ranks, cluster.gpus_per_node);
  if (ranks % per_node != 0) {
    throw no_such_machine(fmt::format("{} ranks do not fill whole nodes of {} with {} GPUs each",
                                      ranks, cluster.name, per_node),
                          "set system.gpus_per_node to a divisor of the ranks");
  }
  if (per_node < cluster.gpus_per_node && cluster.nics_per_node > 0) {
    cluster.nics_per_node = std::max(1, cluster.nics_per_node * per_node / cluster.gpus_per_node);
  }
  cluster.gpus_per_node = per_node;
  cluster.num_nodes = ranks / per_node;
  return cluster;
}

Cluster machine_for(const ProgramSet& set, const Experiment& machine) {
  Cluster cluster = machine_of_ranks(static_cast<int>(set.programs.of_rank.size()), machine);
  cluster.device.attention_drops = set.settings.attention_drops;
  if (set.settings.overlap_is_recorded) cluster.device.slowdown_beside_collectives = 0.0;
  return cluster;
}

ProgramReplay replay_programs_on(const ProgramSet& set, const ProgramReplayOptions& options) {
  ProgramReplay replay;
  const std::int64_t steps = num_steps_of(set.programs);
  replay.has_steps = steps > 0;
  RunRecord* record = nullptr;  // Made of the world.
  ReplayWorld world(
      {.cluster = options.cluster,
       .all_reduce_algorithm = set.settings.all_reduce_algorithm,
       .buffered_sends = set.settings.buffered_sends,
       .hole_factor = options.hole_factor,
       .traced_ranks = {},
       .on_mark = [&](int rank, const ProgramMark& mark) { record->note(rank, mark); },
       .on_progress = options.on_progress},
      set.programs);
  RunRecord made(world, steps, {}, /*knows_routing=*/true);
  record = &made;
  try {
    world.run();
  } catch (const ReplayEnded& ended) {
    throw Error(ExitCode::communication, "E1379",
                "the programs of the ranks do not fit together: " + ended.reason,
                "correct what recorded them: every member of a group makes the same calls");
  }
  replay.last_rank =
      last_rank(world.running(), [&world](int rank) { return world.rank(rank).now(); });
  replay.whole = world.rank(replay.last_rank).now();
  for (int rank = 0; rank < world.num_ranks(); ++rank) {
    replay.peak_memory_bytes = std::max(replay.peak_memory_bytes, world.ledger(rank).peak());
  }
  replay.split = world.rank(replay.last_rank).split();
  replay.step = replay.whole;
  if (replay.has_steps) {
    replay.last_rank = made.last_rank();
    const RankMoment& begin = made.last_step_begin(replay.last_rank);
    const RankMoment& end = made.last_step_end(replay.last_rank);
    replay.step = end.clock - begin.clock;
    replay.split = difference(end.split, begin.split);
  }
  replay.sent_bytes = world.total_traffic().payload_sent;
  add_computing(set, options, replay);
  return replay;
}

}  // namespace shardsim
