#include "backends/probe.hpp"

#include "sim/real/measure_rank.hpp"
#include "sim/real/run_ranks.hpp"

namespace shardsim {

namespace {

void require_runnable(const Experiment& experiment, const ProcessOptions& options) {
  if (!experiment.world().has_data) {
    throw UsageError("E1073",
                     "a scenario with shapes only cannot run on --backend=" + options.backend,
                     "use --set execution.tensors=real, with a model that fits this machine");
  }
}

BackendSetting backend_setting_of(const Experiment& experiment) {
  const FiberOptions& simulated = experiment.world();
  return {simulated.cluster, simulated.all_reduce_algorithm, simulated.buffered_sends};
}

std::string report_key(int rank) { return "report " + std::to_string(rank); }

MeasuredRank measure(const Experiment& experiment, const RunHooks& hooks,
                     const ProcessOptions& options, RankSeat& seat) {
  RankSetting setting{
      &experiment, hooks.wrap_world, {}, options.backend == "nccl", !same_order(options)};
  // Some systems do not count, so the counter is tested first.
  const bool counts = seat.rank() == 0 && probe_loopback_counter().available;
  std::optional<std::int64_t> loopback_before;
  std::optional<std::int64_t> loopback_after;
  int meeting = 0;
  setting.meet = [&] {
    const bool begins = meeting == 0;
    seat.meet("training " + std::to_string(meeting++));
    if (counts) (begins ? loopback_before : loopback_after) = read_loopback_bytes();
  };
  MeasuredRank report = measure_rank(setting, seat.open().backend());
  if (loopback_before && loopback_after) report.loopback_bytes = *loopback_after - *loopback_before;
  return report;
}

// Trains, compares, and leaves the rank's report under its key.
void work_of_rank(const Experiment& experiment, const RunHooks& hooks,
                  const ProcessOptions& options, RankSeat& seat) {
  MeasuredRank report = measure(experiment, hooks, options, seat);
  report.wire = seat.open().close();
  seat.set(report_key(seat.rank()), to_text(report));
}

RunOutcome failed(const Experiment& experiment, const RunFailure& failure) {
  if (!failure.diagnosis) failure.raise();
  RunOutcome outcome;
  outcome.result.scenario_json = experiment.scenario().resolved_json;
  outcome.result.warnings = experiment.scenario().warnings;
  outcome.result.diagnosis = failure.diagnosis;
  outcome.result.exit_code = static_cast<int>(failure.exit_code);
  return outcome;
}

MeasuredRun measured_run_of(const ProcessOptions& options, const RendezvousServer& server,
                            const MeasuredRank& first) {
  const char* const why_no_wire =
      options.backend == "nccl"
          ? "bytes on the wire were not counted: NCCL tells them of networks only"
      : options.native_collectives
          ? "bytes on the wire were not counted: MPI's own collectives send others"
          : "bytes on the wire were not counted: Open MPI's monitoring is not in use (another MPI, "
            "another pml, or its variables are set)";
  return {.backend = options.backend,
          .library = server.value("library").value_or(""),
          .same_order = same_order(options),
          .notes = notes_of(server),
          .why_no_wire = why_no_wire,
          .loopback_bytes = first.loopback_bytes};
}

RunOutcome succeeded(const Experiment& experiment, const RunHooks& hooks,
                     const ProcessOptions& options, const RendezvousServer& server) {
  RunOutcome outcome = run_experiment(experiment, hooks);
  std::vector<MeasuredRank> reports;
  for (int rank = 0; rank < experiment.mesh().size(); ++rank) {
    reports.push_back(rank_report_of(server.value(report_key(rank)).value_or("")));
  }
  add_measured(outcome.result, experiment, measured_run_of(options, server, reports.front()),
               reports);
  settle_exit_code(outcome.result);
  return outcome;
}

}  // namespace

ProcessOutcome run_on_processes(const Experiment& experiment, const RunHooks& hooks,
                                const ProcessOptions& options, const std::string& out_directory,
                                std::ostream& err) {
  require_runnable(experiment, options);
  RanksJob job;
  job.setting = backend_setting_of(experiment);
  job.work = [&](RankSeat& seat) { work_of_rank(experiment, hooks, options, seat); };
  job.on_progress = hooks.on_progress;
  const RanksOutcome ranks = run_ranks(job, options, err);
  if (!ranks.server) return {false, {}, ranks.exit_code};
  if (!ranks.verdict.failure) {
    return {true, succeeded(experiment, hooks, options, *ranks.server), 0};
  }
  write_flight_records(ranks.verdict, out_directory, err);
  return {true, failed(experiment, *ranks.verdict.failure), 0};
}

}  // namespace shardsim
