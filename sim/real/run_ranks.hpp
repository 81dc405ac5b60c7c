#pragma once

#include <functional>
#include <iosfwd>
#include <memory>

#include "backends/rendezvous/process_launcher.hpp"
#include "backends/rendezvous/rendezvous_server.hpp"

#include "sim/real/open_backend.hpp"
#include "sim/real/process_options.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

class RendezvousClient;

/// One rank's work in a real run, between the rendezvous' first and last word. All functions throw
/// the reason if the run is given up meanwhile.
class RankSeat {
 public:
  /// All outlive it.
  RankSeat(int rank, RendezvousClient& client, OpenBackend& open)
      : rank_(rank), client_(client), open_(open) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] OpenBackend& open() { return open_; }
  /// Leaves a value at the rendezvous, where the serving process finds it.
  void set(const std::string& key, const std::string& value);
  /// Returns when all ranks are here; others may compute for long before.
  void meet(const std::string& name);

 private:
  int rank_;
  RendezvousClient& client_;
  OpenBackend& open_;
};

/// The work of a rank. It closes the backend if nothing has failed.
using RankWork = std::function<void(RankSeat&)>;

/// The joint work of real processes.
struct RanksJob {
  BackendSetting setting;
  RankWork work;                      ///< For this process's rank, wherever it runs.
  std::function<void()> on_progress;  ///< Called now and then while ranks run; may be empty.
};

struct RanksOutcome {
  /// Null: another process reports, and this one ends with `exit_code`.
  std::unique_ptr<RendezvousServer>
      server;  ///< Has the values that ranks have left under their keys.
  /// For rank 0 under a launcher: signals do not end it before it has reported the verdict.
  std::unique_ptr<InterruptGuard> guard;
  Verdict verdict;
  int exit_code = 0;
};

/// Runs `job` on one process per rank and returns in the process that reports with the verdict.
///
/// Without a launcher around it, this process starts the ranks itself (`options.words` again),
/// serves their rendezvous, and leaves none behind. Started by a launcher, rank 0 serves and
/// reports. Throws Error if nothing can be run: no such backend here (exit 5), or a launcher that
/// has started another number of ranks. Output of ranks and launchers goes to `err` if it may show
/// the cause.
[[nodiscard]] RanksOutcome run_ranks(const RanksJob& job, const ProcessOptions& options,
                                     std::ostream& err);

/// The file that write_flight_records() writes.
inline constexpr const char* kFlightRecordFile = "flight-record.txt";

/// OpenBackend::notes() of rank 0.
[[nodiscard]] std::vector<std::string> notes_of(const RendezvousServer& server);

/// Writes below `directory`, if there are any; prints the place on `err`.
void write_flight_records(const Verdict& verdict, const std::string& directory, std::ostream& err);

// --- Experiments -------------------------------------------------------------------------------

/// Runs an experiment on real processes and adds their measurements to the simulation's outcome.
///
/// Without a launcher around it, this process starts the ranks itself (`options.words` again, one
/// process per rank), serves their rendezvous, and leaves none behind. Started by a launcher, rank
/// 0 serves and reports; other ranks only run and have nothing to print.
///
/// The findings of the run (ranks that died, hung or called wrongly) are in the result with its
/// exit code, as in run_experiment. Throws Error if it cannot run at all. Flight records of a
/// failed run are written below `out_directory`, with a note on `err`.
struct ProcessOutcome {
  bool reports = true;
  RunOutcome outcome;  ///< For the process that reports.
  int exit_code = 0;   ///< For the others.
};
[[nodiscard]] ProcessOutcome run_on_processes(const Experiment& experiment, const RunHooks& hooks,
                                              const ProcessOptions& options,
                                              const std::string& out_directory, std::ostream& err);

}  // namespace shardsim
