#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/error.hpp"

#include "sim/harness/check.hpp"

// A program that check() runs in memory, on the processes of an MPI job: with the same RankContext,
// and judged by the same code. docs/guide/check.md has an example.
namespace shardsim {

/// Options of check() as they must be on processes: one run, as it comes, and nothing watched in
/// it. Nothing else is changed.
[[nodiscard]] CheckOptions options_for_mpi(CheckOptions options);
/// The same for as many processes as mpirun has started.
[[nodiscard]] CheckOptions options_for_mpi();

/// A program and how it is checked.
struct MpiProgram {
  Program program;
  /// `ranks` or `layouts` must hold the number of processes; no `ranks`: any number will do. Runs
  /// once for each seed and for each layout of so many ranks. Results are compared with the
  /// reference, which runs in memory on rank 0.
  CheckOptions options = options_for_mpi();
};

struct MpiCheckOptions {
  /// So long a call may wait in vain, in seconds, and a process may be silent.
  double timeout_s = 60.0;
  /// Calls are compared as they are made, too: ends a run at the first calls that do not match.
  /// Otherwise it ends when ranks wait in vain or have ended. As --check=fingerprint of the
  /// command.
  bool fingerprints = false;
};

struct MpiCheckOutcome {
  /// On rank 0: one for each program that was run. Processes end with calls that do not match, and
  /// then programs behind are not run.
  std::vector<CheckReport> reports;
  /// ok; check_failed if numbers are wrong, communication if calls are, backend_failed if a process
  /// was lost.
  ExitCode exit_code = ExitCode::ok;
  /// While it lives, SIGTERM of a launcher that ends its job does not end this process.
  std::shared_ptr<void> guard;
};

/// Runs the programs one after the other on all processes that mpirun has started; every process
/// calls it, once. Throws UsageError for options that need virtual time, schedules or watched
/// buffers (E1216, by name, with `site`), and without mpirun (E1217). Throws Error if processes
/// cannot run or are lost in a way that no report explains.
[[nodiscard]] MpiCheckOutcome check_on_mpi(std::span<const MpiProgram> programs,
                                           const MpiCheckOptions& options = {},
                                           CallSite site = CallSite::here());

/// The main function of such a program: reads --timeout=SECONDS and --check=fingerprint, checks,
/// prints the reports on rank 0, and returns the exit code.
[[nodiscard]] int check_main(int argc, const char* const* argv,
                             std::span<const MpiProgram> programs,
                             CallSite site = CallSite::here());
/// The same with a single program.
[[nodiscard]] int check_main(int argc, const char* const* argv, const Program& program,
                             const CheckOptions& options = options_for_mpi(),
                             CallSite site = CallSite::here());

}  // namespace shardsim
