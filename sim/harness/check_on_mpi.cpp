#include "sim/harness/check_on_mpi.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "sim/kernel/text.hpp"
#include "sim/kernel/version.hpp"

#include "backends/mpi/mpi_library.hpp"
#include "backends/rendezvous/flight_recorder.hpp"
#include "backends/rendezvous/meeting_point.hpp"
#include "backends/rendezvous/process_launcher.hpp"
#include "backends/rendezvous/rendezvous_client.hpp"
#include "backends/rendezvous/rendezvous_server.hpp"

#include "sim/harness/checker.hpp"
#include "sim/harness/process_checks.hpp"

namespace shardsim {

namespace {

constexpr const char* kReplayToken = "SHARDSIM_REPLAY";
constexpr const char* kModule = "SHARDSIM_MPI_MODULE";

// --- What is refused ---------------------------------------------------------------------------

class Refusal {
 public:
  Refusal(const MpiProgram& program, CallSite site) : program_(program), site_(site) {}

  void require(bool holds, const std::string& option, const std::string& why,
               const std::string& fix) const {
    if (holds) return;
    throw UsageError("E1216",
                     fmt::format("{}:{}: {} of the check \"{}\" {}", site_.file, site_.line, option,
                                 program_.options.name, why),
                     fix);
  }

 private:
  const MpiProgram& program_;
  CallSite site_;
};

// Whether the environment has a schedule for this check.
bool is_replayed(const std::string& name) {
  const char* const token = std::getenv(kReplayToken);
  if (token == nullptr || *token == '\0') return false;
  return parse_token(token, /*force=*/true).name == parse_token(to_text({.name = name})).name;
}

void require_plain(const MpiProgram& program, CallSite site) {
  constexpr const char* kInMemory =
      "check() does it in memory; options_for_mpi(options) is without";
  const CheckOptions& options = program.options;
  const Refusal refusal(program, site);
  refusal.require(options.explore.mode == ExploreMode::none, "CheckOptions::explore",
                  "asks for schedules: processes have the one that comes", kInMemory);
  refusal.require(!options.watch_buffers, "CheckOptions::watch_buffers",
                  "is on: nobody sees who touches the memory of a process", kInMemory);
  refusal.require(options.replay.empty(), "CheckOptions::replay",
                  "has a schedule: processes have the one that comes", kInMemory);
  refusal.require(!is_replayed(options.name), kReplayToken,
                  "has a schedule: processes have the one that comes",
                  "leave the variable out, or replay in memory: check()");
}

void require_size(const MpiProgram& program, int size, CallSite site) {
  const CheckOptions& options = program.options;
  const Refusal refusal(program, site);
  std::vector<int> sizes = options.layouts.empty() ? options.ranks : std::vector<int>();
  for (const MeshShape& layout : options.layouts) sizes.push_back(layout.size());
  const bool has_any = options.layouts.empty() && options.ranks.empty();
  refusal.require(
      has_any || std::ranges::find(sizes, size) != sizes.end(),
      options.layouts.empty() ? "CheckOptions::ranks" : "CheckOptions::layouts",
      fmt::format("is for {} processes, and mpirun has started {}", fmt::join(sizes, ", "), size),
      "start as many, or leave ranks and layouts out");
}

// --- One process -------------------------------------------------------------------------------

// A program lies anywhere, the module where shardsim was installed or built.
void use_installed_module() {
  const std::string beside = mpi_module_path_of(this_executable());
  if (!beside.empty() && std::filesystem::exists(beside)) return;
  if (std::filesystem::exists(SHARDSIM_INSTALLED_MPI_MODULE)) {
    ::setenv(kModule, SHARDSIM_INSTALLED_MPI_MODULE, /*overwrite=*/0);
  }
}

struct ProcessJob {
  std::span<const MpiProgram> programs;
  const MpiCheckOptions& options;
  const MeetingPoint& place;
  std::function<void()> last_resort;
  std::vector<CheckReport>& reports;
};

void run_programs(const ProcessJob& job, RendezvousClient& client, CallWatch& calls) {
  MpiJob mpi({});
  try {
    ProcessChecks checks(mpi, client, calls, job.options);
    for (const MpiProgram& program : job.programs) {
      std::optional<CheckReport> report = checks.run(program);
      if (report) job.reports.push_back(*std::move(report));
    }
  } catch (...) {
    mpi.give_up();  // Closing must not wait for processes that will not come.
    throw;
  }
}

ExitCode run_process(const ProcessJob& job) {
  FlightRecorder recorder;
  RendezvousClientOptions options{.host = job.place.host,
                                  .port = job.place.port,
                                  .token = job.place.token,
                                  .rank = job.place.rank,
                                  .world_size = job.place.world_size,
                                  .connect_timeout_s = job.options.timeout_s,
                                  .deadline_s = job.options.timeout_s,
                                  .recorder = &recorder,
                                  .last_resort = job.last_resort};
  RendezvousClient client(std::move(options));
  ProcessWatch watch(client, recorder, job.options.fingerprints);
  try {
    run_programs(job, client, watch);
    client.end();
    return ExitCode::ok;
  } catch (const Error& error) {
    return give_up_run(client, job.place, error);
  } catch (const std::exception& error) {
    return give_up_run(client, job.place,
                       Error(ExitCode::internal, "E1218", error.what(),
                             "this is a bug of shardsim; please report it"));
  }
}

// --- Rank 0 ------------------------------------------------------------------------------------

// For a rank 0 that does not return from a call.
void end_with_verdict_of(const RendezvousServer& server) {
  const std::optional<Verdict> verdict = server.verdict();
  const std::string text = verdict && verdict->failure ? verdict->failure->to_text() : "";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
  _exit(static_cast<int>(verdict ? verdict->exit_code() : ExitCode::backend_failed));
}

MpiCheckOutcome serve_and_run(std::span<const MpiProgram> programs, const MpiCheckOptions& options,
                              const MeetingPoint& place) {
  MpiCheckOutcome outcome;
  // A launcher that sees a process fail ends the others: this one must report the cause first.
  outcome.guard = std::make_shared<InterruptGuard>();
  RendezvousServerOptions serving{.world_size = place.world_size,
                                  .address = place.host,
                                  .port = place.port,
                                  .token = place.token};
  serving.times.arrival_s = serving.times.deadline_s = options.timeout_s;
  RendezvousServer server(std::move(serving));
  static_cast<void>(run_process({.programs = programs,
                                 .options = options,
                                 .place = place,
                                 .last_resort = [&server] { end_with_verdict_of(server); },
                                 .reports = outcome.reports}));
  const Verdict verdict = server.wait();
  for (const CheckReport& report : outcome.reports) {
    if (!report.passed()) outcome.exit_code = ExitCode::check_failed;
  }
  if (!verdict.failure) return outcome;
  if (!verdict.failure->diagnosis) verdict.failure->raise();
  outcome.exit_code = verdict.failure->exit_code;
  outcome.reports.push_back({.failure = *verdict.failure->diagnosis, .schedules = 1});
  return outcome;
}

// --- A program's main function -----------------------------------------------------------------

MpiCheckOptions read_arguments(int argc, const char* const* argv) {
  constexpr std::string_view kTimeout = "--timeout=";
  MpiCheckOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    std::optional<double> timeout_s;
    if (word.starts_with(kTimeout)) timeout_s = parse_number<double>(word.substr(kTimeout.size()));
    if (word == "--check=fingerprint") {
      options.fingerprints = true;
    } else if (timeout_s && *timeout_s > 0.0) {
      options.timeout_s = *timeout_s;
    } else {
      throw UsageError("E1216", fmt::format("{} has no meaning for a check on processes", word),
                       "give --timeout=SECONDS or --check=fingerprint; schedules are tried in "
                       "memory, by check()");
    }
  }
  return options;
}

// Whether this process speaks for all.
bool speaks() {
  const std::optional<LaunchedRank> launched = find_launched_rank();
  return !launched || launched->rank == 0;
}

}  // namespace

CheckOptions options_for_mpi(CheckOptions options) {
  options.explore.mode = ExploreMode::none;
  options.watch_buffers = false;
  options.replay.clear();
  return options;
}

CheckOptions options_for_mpi() {
  CheckOptions options;
  options.ranks.clear();
  return options_for_mpi(std::move(options));
}

MpiCheckOutcome check_on_mpi(std::span<const MpiProgram> programs, const MpiCheckOptions& options,
                             CallSite site) {
  for (const MpiProgram& program : programs) require_plain(program, site);
  const std::optional<LaunchedRank> launched = find_launched_rank();
  if (!launched) {
    throw UsageError("E1217", "no launcher has started this check on processes",
                     "start it by mpirun: mpirun -n 4 PROGRAM");
  }
  for (const MpiProgram& program : programs) require_size(program, launched->world_size, site);
  use_installed_module();
  static_cast<void>(require_mpi_module());
  const MeetingPoint place = meeting_point_of(*launched);
  if (place.rank == 0) return serve_and_run(programs, options, place);
  MpiCheckOutcome outcome;
  outcome.exit_code = run_process({.programs = programs,
                                   .options = options,
                                   .place = place,
                                   .last_resort = {},
                                   .reports = outcome.reports});
  return outcome;
}

int check_main(int argc, const char* const* argv, std::span<const MpiProgram> programs,
               CallSite site) {
  try {
    const MpiCheckOptions options = read_arguments(argc, argv);
    const MpiCheckOutcome outcome = check_on_mpi(programs, options, site);
    for (const CheckReport& report : outcome.reports) std::cout << report.to_text();
    std::cout.flush();
    return static_cast<int>(outcome.exit_code);
  } catch (const Error& error) {
    if (speaks()) {
      std::cerr << "error[" << error.code() << "]: " << error.what() << "\n";
      if (!error.fix().empty()) std::cerr << "  fix: " << error.fix() << "\n";
    }
    return static_cast<int>(error.exit_code());
  }
}

int check_main(int argc, const char* const* argv, const Program& program,
               const CheckOptions& options, CallSite site) {
  const MpiProgram only[] = {{program, options}};
  return check_main(argc, argv, only, site);
}

}  // namespace shardsim
