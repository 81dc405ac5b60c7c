#include "sim/app/process/serve_run.hpp"

#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "backends/rendezvous/launch_command.hpp"
#include "backends/rendezvous/rendezvous_server.hpp"
#include "backends/rendezvous/token.hpp"

#include "sim/app/plan_of.hpp"
#include "sim/app/process/measured.hpp"
#include "sim/app/process/open_backend.hpp"
#include "sim/app/process/rank_process.hpp"

namespace shardsim {

namespace {

void require_runnable(const Scenario& scenario, const ProcessOptions& options) {
  if (scenario.execution.tensors != TensorMode::real) {
    throw UsageError("E1073",
                     "a scenario with shapes only cannot run on --backend=" + options.backend,
                     "use --set execution.tensors=real, with a model that fits this machine");
  }
}

RendezvousServerOptions server_options_of(const ProcessOptions& options, int ranks) {
  RendezvousServerOptions server;
  server.world_size = ranks;
  server.times.arrival_s = options.timeout_s;
  server.times.deadline_s = options.timeout_s;
  return server;
}

std::vector<std::string> rank_argv(const ProcessOptions& options) {
  std::vector<std::string> argv = options.words;
  // As found, not as named: the ranks must be this very program.
  argv.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  return argv;
}

// Starts all ranks and stays with them until there is a verdict. What they and mpirun print is
// passed on if it may tell the cause.
Verdict launch_and_wait(const ProcessOptions& options, const RunHooks& hooks, int ranks,
                        RendezvousServer& server, std::ostream& err) {
  const InterruptGuard guard;
  std::ostringstream printed;
  ProcessLauncher launcher;
  const RankLaunch launch{ranks, rank_argv(options), server.address(), server.token()};
  if (options.backend == "mpi") {
    ProcessCommand command = mpirun_command(launch, geteuid() == 0);
    command.output = &printed;
    launcher.start(command);
  } else {
    for (int rank = 0; rank < ranks; ++rank) launcher.start(plain_rank_command(launch, rank));
  }
  constexpr double kPollSeconds = 0.05;
  constexpr int kPollsForLastWords = 100;
  bool told_interrupt = false;
  int polls_alone = 0;
  while (!server.verdict()) {
    launcher.poll(kPollSeconds);
    if (hooks.on_progress) hooks.on_progress();
    if (InterruptGuard::interrupted() && !told_interrupt) {
      told_interrupt = true;
      server.give_up({ExitCode::interrupted, "E9000", "interrupted; the results are lost", "", {}});
    }
    // Words of ranks may still be on their way.
    if (launcher.num_running() == 0 && ++polls_alone == kPollsForLastWords) {
      server.give_up({ExitCode::backend_failed,
                      "E1074",
                      "the ranks' processes ended before their run did: the first " +
                          launcher.end_of(0)->describe(),
                      "see what they printed above",
                      {}});
    }
  }
  const Verdict verdict = *server.verdict();
  // Ranks that ended well close their backend together, which takes a moment.
  for (int i = 0; i < 200 && !verdict.failure && launcher.num_running() > 0; ++i) {
    launcher.poll(kPollSeconds);
  }
  launcher.stop(1.0);
  if (!verdict.failure || verdict.failure->exit_code != ExitCode::communication) {
    err << printed.str();
  }
  return verdict;
}

void write_flight_records(const Verdict& verdict, const std::string& directory, std::ostream& err) {
  if (verdict.flight_records.empty()) return;
  const std::string path = (std::filesystem::path(directory) / "flight-record.txt").string();
  std::ofstream file(path);
  for (const auto& [rank, record] : verdict.flight_records) {
    file << "rank " << rank << "\n" << to_text(record) << "\n";
  }
  file.close();
  err << (file ? "the last calls of every rank that could tell are in "
               : "the last calls of the ranks could not be written to ")
      << path << "\n";
}

RunOutcome failed(const Scenario& scenario, const RunFailure& failure) {
  if (!failure.diagnosis) failure.raise();
  RunOutcome outcome;
  outcome.result.scenario_json = scenario.resolved_json;
  outcome.result.warnings = scenario.warnings;
  outcome.result.diagnosis = failure.diagnosis;
  outcome.result.exit_code = static_cast<int>(failure.exit_code);
  return outcome;
}

MeasuredRun measured_run_of(const ProcessOptions& options, const std::string& library,
                            const std::string& notes, const RankReport& first) {
  MeasuredRun run;
  std::istringstream lines(notes);
  for (std::string note; std::getline(lines, note);) run.notes.push_back(note);
  run.backend = options.backend;
  run.library = library;
  run.same_order = same_order(options);
  run.loopback_bytes = first.loopback_bytes;
  return run;
}

RunOutcome succeeded(const Scenario& scenario, const RunHooks& hooks, const ProcessOptions& options,
                     const RendezvousServer& server) {
  RunOutcome outcome = run_scenario(scenario, hooks);
  std::vector<RankReport> reports;
  for (int rank = 0; rank < static_cast<int>(scenario.system.ranks); ++rank) {
    reports.push_back(rank_report_of(server.value(report_key(rank)).value_or("")));
  }
  add_measured(outcome.result, scenario,
               measured_run_of(options, server.value("library").value_or(""),
                               server.value("notes").value_or(""), reports.front()),
               reports);
  settle_exit_code(outcome.result);
  return outcome;
}

void require_size(const LaunchedRank& launched, int ranks) {
  if (launched.world_size == ranks) return;
  throw UsageError("E1075",
                   fmt::format("the scenario has {} ranks, the launcher ({}) has started {}", ranks,
                               launched.source, launched.world_size),
                   fmt::format("start {} processes, or change the scenario's layout", ranks));
}

// This process trains and serves, and its training does not come back from a call.
void end_with_verdict(const RendezvousServer& server) {
  const std::optional<Verdict> verdict = server.verdict();
  const std::string text = verdict && verdict->failure ? verdict->failure->to_text() : "";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  _exit(static_cast<int>(verdict ? verdict->exit_code() : ExitCode::backend_failed));
}

}  // namespace

ProcessOutcome run_on_processes(const Scenario& scenario, const RunHooks& hooks,
                                const ProcessOptions& options, const std::string& out_directory,
                                std::ostream& err) {
  require_runnable(scenario, options);
  const auto ranks = static_cast<int>(scenario.system.ranks);
  require_backend(options);
  const auto serve_with = [&](RendezvousServer& server, const Verdict& verdict) {
    if (!verdict.failure) return succeeded(scenario, hooks, options, server);
    write_flight_records(verdict, out_directory, err);
    return failed(scenario, *verdict.failure);
  };
  const std::optional<LaunchedRank> launched = find_launched_rank();
  if (!launched) {
    RendezvousServer server(server_options_of(options, ranks));
    const Verdict verdict = launch_and_wait(options, hooks, ranks, server, err);
    return {true, serve_with(server, verdict), 0};
  }
  require_size(*launched, ranks);
  const MeetingPoint meeting = meeting_point_of(*launched);
  const SharedPlan shared(scenario);
  if (meeting.served_by_launcher) die_with_parent();
  if (meeting.served_by_launcher || meeting.rank != 0) {
    const ExitCode code = run_rank_process(scenario, shared.parallel, hooks, options, meeting);
    return {false, {}, static_cast<int>(code)};
  }
  RendezvousServerOptions server_options = server_options_of(options, ranks);
  server_options.address = meeting.host;
  server_options.port = meeting.port;
  server_options.token = meeting.token;
  RendezvousServer server(std::move(server_options));
  static_cast<void>(run_rank_process(scenario, shared.parallel, hooks, options, meeting,
                                     [&server] { end_with_verdict(server); }));
  return {true, serve_with(server, server.wait()), 0};
}

}  // namespace shardsim
