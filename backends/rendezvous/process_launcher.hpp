#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

// Starts processes, the ranks of a run among them, and lets none of them outlive it.
namespace shardsim {

struct ProcessCommand {
  std::vector<std::string> argv;  ///< The program first; looked for in PATH.
  /// Added to this process's environment, or replacing it by name.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> without;  ///< Variables of this process that the child does not get.
  /// Target of its lines of stdout and stderr, each with `prefix`; null: they are inherited.
  std::ostream* output = nullptr;
  std::string prefix;
};

/// A run whose ranks shardsim starts itself, in one of two ways.
struct RankLaunch {
  int world_size = 1;
  std::vector<std::string> argv;  ///< Command line of each rank, the program first.
  std::string rendezvous;         ///< "HOST:PORT".
  std::string token;
  std::string preload;  ///< A library that mpirun preloads into itself and the ranks, or "".
};

/// One mpirun that starts all ranks on this machine, over loopback sockets only, so that bytes can
/// be counted there. It puts launch.preload before the user's own libraries, and starts more ranks
/// than cores if need be. As root, too (in containers).
[[nodiscard]] ProcessCommand mpirun_command(const RankLaunch& launch, bool as_root);

/// Rank `rank` as a process of its own, told so by SHARDSIM_RANK and its like.
[[nodiscard]] ProcessCommand plain_rank_command(const RankLaunch& launch, int rank);

/// How a process has ended.
struct ProcessEnd {
  int exit_code = 0;  ///< 128 + signal if a signal has ended it, as shells say.
  int signal = 0;     ///< 0: none.
  /// "exited with 3", "was killed by signal 9 (Killed)".
  [[nodiscard]] std::string describe() const;
};

/// Each process leads a process group of its own, and is killed by the kernel when the thread that
/// started it ends: so start, and stay, on a thread that lives as long as the run. All calls come
/// from that thread. The destructor kills what still runs.
class ProcessLauncher {
 public:
  ProcessLauncher();
  ~ProcessLauncher();
  ProcessLauncher(const ProcessLauncher&) = delete;
  ProcessLauncher& operator=(const ProcessLauncher&) = delete;

  /// Its index. Throws Error E1010 if the program cannot be started.
  int start(const ProcessCommand& command);

  /// Waits at most `seconds` for output or for the end of a process, passes output on and notes
  /// who has ended.
  void poll(double seconds);
  [[nodiscard]] int num_running() const;
  [[nodiscard]] int pid(int index) const;
  /// Nothing: it runs, as far as the last poll knows.
  [[nodiscard]] const std::optional<ProcessEnd>& end_of(int index) const;

  /// Ends all: SIGTERM to every group, and after `grace_s` SIGKILL to the groups and to all that
  /// their processes have started (mpirun gives each rank a group of its own). Returns when all
  /// have ended.
  void stop(double grace_s);

 private:
  struct Child;
  std::vector<std::unique_ptr<Child>> children_;
};

/// For a process that a launcher of ours started through others (mpirun): from now on it is killed
/// when its parent ends, and at once if that is not `parent` any more.
void die_with_parent(int parent = getppid());
/// The same, and at once if the process `launcher` is no ancestor any more: whoever stood between
/// may have ended before this call.
void die_with_launcher(int launcher);

/// While it lives, SIGINT and SIGTERM do not end this process but are remembered. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool interrupted();

 private:
  struct Previous;
  std::unique_ptr<Previous> previous_;
};

}  // namespace shardsim
