#include "sim/real/run_ranks.hpp"

#include <exception>
#include <filesystem>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/rendezvous_client.hpp"

#include "scenarios/source_text.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

// --- One rank's process ------------------------------------------------------------------------

RendezvousClientOptions client_options_of(const ProcessOptions& options,
                                          const MeetingPoint& meeting,
                                          const FlightRecorder& recorder) {
  return {.host = meeting.host,
          .port = meeting.port,
          .token = meeting.token,
          .rank = meeting.rank,
          .world_size = meeting.world_size,
          .connect_timeout_s = options.timeout_s,
          .deadline_s = options.timeout_s,
          .recorder = &recorder};
}

void do_work(const BackendSetting& setting, const RankWork& work, const ProcessOptions& options,
             const MeetingPoint& place, RendezvousClient& client, CallWatch& watch) {
  const SharedKeys keys{
      [&](const std::string& key, const std::string& value) { client.set(key, value); },
      [&](const std::string& key) { return client.get(key, options.timeout_s); }};
  const std::unique_ptr<OpenBackend> open = open_backend(options, setting, place, keys, watch);
  try {
    if (place.rank == 0) {
      client.set("library", open->library());
      client.set("notes", fmt::format("{}", fmt::join(open->notes(), "\n")));
    }
    RankSeat seat(place.rank, client, *open);
    work(seat);
  } catch (...) {
    open->give_up();  // Closing must not wait for ranks that will not come.
    throw;
  }
}

// The process of one rank of a real run: meets the others at the rendezvous, opens the backend,
// does `work`, and ends. Rank 0 leaves "library" and "notes" of the backend, lines, at the
// rendezvous. It prints nothing: the serving process knows every failure, here or elsewhere.
// Returns the exit code. Throws Error if it does not reach the rendezvous. `last_resort`: see
// RendezvousClientOptions.
ExitCode run_rank_process(const BackendSetting& setting, const RankWork& work,
                          const ProcessOptions& options, const MeetingPoint& meeting,
                          std::function<void()> last_resort = {}) {
  prepare_backend(options, meeting);
  FlightRecorder recorder;
  RendezvousClientOptions client_options = client_options_of(options, meeting, recorder);
  if (last_resort) client_options.last_resort = std::move(last_resort);
  RendezvousClient client(std::move(client_options));
  ProcessWatch watch(client, recorder, options.check_fingerprints);
  try {
    do_work(setting, work, options, meeting, client, watch);
    client.end();
    return ExitCode::ok;
  } catch (const Error& error) {
    return give_up_run(client, meeting, error);
  } catch (const std::exception& error) {
    return give_up_run(client, meeting,
                       Error(ExitCode::internal, "E7000", error.what(),
                             "this is a bug of shardsim; please report it with the scenario"));
  }
}

// --- All ranks ---------------------------------------------------------------------------------

RendezvousServerOptions server_options_of(const ProcessOptions& options, int ranks) {
  RendezvousServerOptions server;
  server.world_size = ranks;
  server.times.arrival_s = options.timeout_s;
  server.times.deadline_s = options.timeout_s;
  return server;
}

std::vector<std::string> rank_argv(const ProcessOptions& options) {
  std::vector<std::string> argv = options.words;
  // The path as found, not as named: the ranks must be this very program.
  argv.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  return argv;
}

// A folder for files of ranks that may die before they remove them.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    path_ = (std::filesystem::temp_directory_path(error) / "shardsim-XXXXXX").string();
    if (error || mkdtemp(path_.data()) == nullptr) {
      throw Error(ExitCode::backend_failed, "E1078", "cannot make the folder " + path_,
                  "make room there, or name another place in TMPDIR");
    }
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Reports how the ranks' processes ended, if they are ours and not mpirun's.
void tell_ends(const ProcessOptions& options, const ProcessLauncher& launcher, int ranks,
               RendezvousServer& server) {
  if (options.backend == "mpi") return;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& end = launcher.end_of(rank);
    if (end && (end->exit_code != 0 || end->signal != 0)) {
      server.note_process_end(rank, end->describe());
    }
  }
}

// Starts all ranks and waits for a verdict. Output of ranks and mpirun is passed on if it may show
// the cause.
Verdict launch_and_wait(const ProcessOptions& options, const RanksJob& job,
                        RendezvousServer& server, std::ostream& err) {
  const InterruptGuard guard;
  std::ostringstream printed;
  ProcessLauncher launcher;
  const ScratchFolder scratch;
  RankLaunch launch{job.setting.ranks(), rank_argv(options), server.address(), server.token(), ""};
  if (options.backend == "mpi") {
    launch.preload = mpi_preload(err);
    ProcessCommand command = mpirun_command(launch, geteuid() == 0);
    command.output = &printed;
    command.environment.emplace_back("SHARDSIM_SCRATCH", scratch.path());
    launcher.start(command);
  } else {
    for (int rank = 0; rank < launch.world_size; ++rank)
      launcher.start(plain_rank_command(launch, rank));
  }
  constexpr double kPollSeconds = 0.05;
  constexpr int kPollsForLastWords = 100;
  bool told_interrupt = false;
  int polls_alone = 0;
  while (!server.verdict()) {
    launcher.poll(kPollSeconds);
    if (job.on_progress) job.on_progress();
    if (InterruptGuard::interrupted() && !told_interrupt) {
      told_interrupt = true;
      server.give_up({ExitCode::interrupted, "E9000", "interrupted; the results are lost", "", {}});
    }
    tell_ends(options, launcher, launch.world_size, server);
    // Messages of ranks may still be on their way.
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

void require_size(const LaunchedRank& launched, int ranks) {
  if (launched.world_size == ranks) return;
  throw UsageError("E1075",
                   fmt::format("the run has {} ranks, the launcher ({}) has started {}", ranks,
                               launched.source, launched.world_size),
                   fmt::format("start {} processes, or ask for another number of ranks", ranks));
}

// For a process that works and serves: its work does not return from a call.
void end_with_verdict(const RendezvousServer& server) {
  const std::optional<Verdict> verdict = server.verdict();
  const std::string text = verdict && verdict->failure ? verdict->failure->to_text() : "";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  _exit(static_cast<int>(verdict ? verdict->exit_code() : ExitCode::backend_failed));
}

// For rank 0 under a launcher: serves, and works at the same time.
void serve_and_work(const RanksJob& job, const ProcessOptions& options, const MeetingPoint& meeting,
                    RanksOutcome& outcome) {
  RendezvousServerOptions server_options = server_options_of(options, job.setting.ranks());
  server_options.address = meeting.host;
  server_options.port = meeting.port;
  server_options.token = meeting.token;
  // A launcher that sees a rank fail ends the others: this one must report the cause first.
  outcome.guard = std::make_unique<InterruptGuard>();
  outcome.server = std::make_unique<RendezvousServer>(std::move(server_options));
  RendezvousServer& server = *outcome.server;
  static_cast<void>(run_rank_process(job.setting, job.work, options, meeting,
                                     [&server] { end_with_verdict(server); }));
  outcome.verdict = server.wait();
}

}  // namespace

void RankSeat::set(const std::string& key, const std::string& value) { client_.set(key, value); }

void RankSeat::meet(const std::string& name) {
  // Others may compute for long; ranks that hang or die are noticed in other ways.
  constexpr double kMeetTimeout = 86400.0;
  client_.barrier(name, kMeetTimeout);
}

RanksOutcome run_ranks(const RanksJob& job, const ProcessOptions& options, std::ostream& err) {
  require_backend(options);
  RanksOutcome outcome;
  const std::optional<LaunchedRank> launched = find_launched_rank();
  if (!launched) {
    outcome.server =
        std::make_unique<RendezvousServer>(server_options_of(options, job.setting.ranks()));
    outcome.verdict = launch_and_wait(options, job, *outcome.server, err);
    return outcome;
  }
  require_size(*launched, job.setting.ranks());
  const MeetingPoint meeting = meeting_point_of(*launched);
  if (meeting.launcher > 0) die_with_launcher(meeting.launcher);
  if (meeting.launcher > 0 || meeting.rank != 0) {
    outcome.exit_code = static_cast<int>(run_rank_process(job.setting, job.work, options, meeting));
  } else {
    serve_and_work(job, options, meeting, outcome);
  }
  return outcome;
}

std::vector<std::string> notes_of(const RendezvousServer& server) {
  std::vector<std::string> notes;
  std::istringstream lines(server.value("notes").value_or(""));
  for (std::string note; std::getline(lines, note);) notes.push_back(note);
  return notes;
}

void write_flight_records(const Verdict& verdict, const std::string& directory, std::ostream& err) {
  if (verdict.flight_records.empty()) return;
  const std::filesystem::path path = std::filesystem::path(directory) / kFlightRecordFile;
  std::string text;
  for (const auto& [rank, record] : verdict.flight_records) {
    text += fmt::format("rank {}\n{}\n", rank, to_text(record));
  }
  try {
    write_complete(path, text, "choose another folder with --out");
    err << "the last calls of every rank that could tell are in " << printable(path.string(), 200)
        << "\n";
  } catch (const Error& error) {
    // The cause of the stop comes first and determines the exit code.
    err << "the last calls of the ranks are lost: " << error.what() << "\n";
  }
}

}  // namespace shardsim
