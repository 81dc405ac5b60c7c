#include "sim/run/detail/detail_of.hpp"

#include <set>
#include <string>

#include <fmt/format.h>

#include "sim/run/detail/memory_curves.hpp"
#include "sim/run/detail/rank_tables.hpp"
#include "sim/run/detail/schedule_chart.hpp"
#include "sim/run/detail/stage_times.hpp"
#include "sim/run/detail/traffic_detail.hpp"
#include "sim/run/detail/watched_run.hpp"
#include "sim/run/training_cost.hpp"

namespace shardsim {

namespace {

void require_same(const WatchedRun& watched, const FiberWorld& world) {
  if (watched.trace_hash() == world.engine().trace_hash()) return;
  throw Error(ExitCode::internal, "E1391",
              "the run that was watched for the report is not the run that was reported",
              "leave the report out, and please report this scenario");
}

void add_notes(const RunDetail& detail, std::vector<std::string>& notes) {
  if (detail.traffic.ranks_per_cell > 1) {
    notes.push_back(fmt::format("In the traffic matrix {0} x {0} ranks are one cell.",
                                detail.traffic.ranks_per_cell));
  }
  if (detail.traffic.steps > 1) {
    notes.push_back(fmt::format("The traffic matrix is of all {} steps, which are not alike.",
                                detail.traffic.steps));
  }
}

}  // namespace

RunDetail detail_of(const EndedRun& run) {
  const ParallelPlan& plan = run.experiment.plan();
  const MeshShape& mesh = plan.options().mesh;
  const FiberWorld& world = run.world;
  const std::int64_t steps = plan.options().training.steps;
  RunDetail detail;
  detail.stages = stage_times(world, run.record, mesh);
  detail.traffic = traffic_matrix(world, steps);
  detail.links =
      link_use(world, run.experiment, run.result.number(metric::kStepTimeS).value_or(0.0));
  detail.cost = cost_of(run.experiment, run.result);
  const std::vector<int> fullest = fullest_ranks(world, mesh);
  const int last = run.record.last_rank();
  std::set<int> ranks(fullest.begin(), fullest.end());
  for (const StageTime& stage : detail.stages) ranks.insert(stage.rank);
  ranks.insert(last);
  WatchedRun watched(plan, run.hooks, world.options(), run.decisions, ranks);
  require_same(watched, world);
  const Time origin = begin_of_last_step(world, run.record);
  detail.axes = axis_table(watched.of(last), run.record, run.result);
  detail.roofline = roofline_of(watched.of(last), run.experiment);
  detail.memory = memory_curves(watched, fullest, origin, detail.notes);
  detail.schedule = schedule_chart(watched, detail.stages, origin, detail.notes);
  add_notes(detail, detail.notes);
  return detail;
}

}  // namespace shardsim
