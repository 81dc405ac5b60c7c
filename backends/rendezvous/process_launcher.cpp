#include "backends/rendezvous/process_launcher.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "backends/rendezvous/launch_environment.hpp"
#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

struct ProcessLauncher::Child {
  pid_t pid = 0;
  int output = -1;  // The reading end of its pipe.
  std::ostream* sink = nullptr;
  std::string prefix;
  std::string line;  // As far as it has come.
  std::optional<ProcessEnd> end;

  void pass_on(std::string_view bytes);
  void read_output();
  void close_output();
  bool reap();
};

namespace {

// A line without an end is passed on in pieces.
constexpr std::size_t kLongestLine = 65536;
constexpr int kSliceMilliseconds = 10;

// Ranks would take the user's token through this variable, not the token of this run.
constexpr const char* kOtherToken = "SHARDSIM_TOKEN_FILE";

// The fourth field of /proc/PID/stat; the second, the name in parentheses, may hold anything.
int parent_of(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos || close + 4 >= text.size()) return -1;
  int parent = -1;
  std::from_chars(text.data() + close + 4, text.data() + text.size(), parent);
  return parent;
}

// The processes that `pid` has started and those that these have, as /proc shows them now.
std::vector<int> descendants_of(int pid) {
  std::multimap<int, int> children;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::optional<int> number = parse_number<int>(name);
    if (number) children.emplace(parent_of(entry->path()), *number);
  }
  std::vector<int> found = {pid};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

// Arguments of exec, made before fork(): after it the child may only make system calls.
class ExecArguments {
 public:
  explicit ExecArguments(const ProcessCommand& command) : argv_(command.argv) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const std::string name = text.substr(0, text.find('='));
      bool passed =
          std::find(command.without.begin(), command.without.end(), name) == command.without.end();
      for (const auto& [replaced, _] : command.environment) passed = passed && replaced != name;
      if (passed) environment_.push_back(text);
    }
    for (const auto& [name, value] : command.environment) {
      environment_.push_back(name);
      environment_.back().append("=").append(value);
    }
    argv_pointers_ = pointers(argv_);
    environment_pointers_ = pointers(environment_);
  }

  char** argv() { return argv_pointers_.data(); }
  char** environment() { return environment_pointers_.data(); }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  }

  std::vector<std::string> argv_;
  std::vector<std::string> environment_;
  std::vector<char*> argv_pointers_;
  std::vector<char*> environment_pointers_;
};

// A pipe that a program started does not inherit.
struct Pipe {
  int read = -1;
  int write = -1;

  bool open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
  ~Pipe() {
    if (read >= 0) close(read);
    if (write >= 0) close(write);
  }
};

// In the child. Tells `failed` why it could not become the program.
[[noreturn]] void become(ExecArguments& arguments, pid_t parent, int output, int failed) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // It ended before the kernel was asked.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A process that is not in the foreground is stopped when it reads from the terminal.
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  // Sockets of this process are not for its children. (Old systems cannot do it, and continue.)
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execvpe(arguments.argv()[0], arguments.argv(), arguments.environment());
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(failed, &reason, sizeof reason);
  _exit(127);
}

[[noreturn]] void refuse_start(const ProcessCommand& command, int reason) {
  throw Error(ExitCode::backend_failed, "E1010",
              "cannot start " + (command.argv.empty() ? "a program" : command.argv[0]) + ": " +
                  std::strerror(reason),
              "install it, or name it by its whole path");
}

// The status of a child that has ended, or once it ends.
int status_of_child(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Adds the variables of every rank to `environment`. The token stays out of argv, which
// everyone on the machine can read.
ProcessCommand command_with(std::vector<std::pair<std::string, std::string>> environment,
                            const RankLaunch& launch) {
  environment.insert(environment.end(), {{"SHARDSIM_RENDEZVOUS", launch.rendezvous},
                                         {"SHARDSIM_TOKEN", launch.token},
                                         {"SHARDSIM_LAUNCHED", std::to_string(getpid())}});
  return {.argv = launch.argv, .environment = std::move(environment), .without = {kOtherToken}};
}

}  // namespace

ProcessCommand mpirun_command(const RankLaunch& launch, bool as_root) {
  ProcessCommand command = command_with({}, launch);
  // On one machine Open MPI's ranks inherit mpirun's environment.
  command.argv = {"mpirun", "-n", std::to_string(launch.world_size), "--oversubscribe",
                  // Ranks that wait must let the others have the cores.
                  "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                  // Sockets only: shared memory would pass the loopback counter by.
                  "--mca", "pml", "ob1,monitoring", "--mca", "btl", "tcp,self", "--mca",
                  "btl_tcp_if_include", "lo"};
  command.argv.insert(command.argv.end(), launch.argv.begin(), launch.argv.end());
  if (!launch.preload.empty()) {
    const std::string others = lookup_environment("LD_PRELOAD").value_or("");
    command.environment.emplace_back("LD_PRELOAD",
                                     launch.preload + (others.empty() ? "" : ":" + others));
  }
  if (as_root) {
    command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return command;
}

ProcessCommand plain_rank_command(const RankLaunch& launch, int rank) {
  return command_with({{"SHARDSIM_RANK", std::to_string(rank)},
                       {"SHARDSIM_WORLD_SIZE", std::to_string(launch.world_size)},
                       {"SHARDSIM_LOCAL_RANK", std::to_string(rank)},
                       {"SHARDSIM_LOCAL_SIZE", std::to_string(launch.world_size)}},
                      launch);
}

std::string ProcessEnd::describe() const {
  if (signal == 0) return "exited with " + std::to_string(exit_code);
  return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

void ProcessLauncher::Child::pass_on(std::string_view bytes) {
  for (const char c : bytes) {
    line += c;
    if (c != '\n' && line.size() < kLongestLine) continue;
    *sink << prefix << line;
    line.clear();
  }
}

void ProcessLauncher::Child::read_output() {
  std::array<char, 4096> bytes{};
  while (output >= 0) {
    const ssize_t got = read(output, bytes.data(), bytes.size());
    if (got > 0) {
      pass_on({bytes.data(), static_cast<std::size_t>(got)});
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      break;
    } else {
      close_output();
    }
  }
  if (sink != nullptr) sink->flush();
}

void ProcessLauncher::Child::close_output() {
  if (output < 0) return;
  close(output);
  output = -1;
  if (!line.empty()) pass_on("\n");
}

// Whether it has ended since the last time.
bool ProcessLauncher::Child::reap() {
  if (end) return false;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
  if (info.si_pid == 0) return false;
  // Nothing of its group outlives it. As long as it is not reaped, its number is no one else's.
  kill(-pid, SIGKILL);
  const int status = status_of_child(pid);
  end.emplace();
  if (WIFSIGNALED(status)) {
    end->signal = WTERMSIG(status);
    end->exit_code = 128 + end->signal;
  } else {
    end->exit_code = WEXITSTATUS(status);
  }
  read_output();
  close_output();
  return true;
}

ProcessLauncher::ProcessLauncher() = default;

ProcessLauncher::~ProcessLauncher() { stop(0.0); }

int ProcessLauncher::start(const ProcessCommand& command) {
  if (command.argv.empty()) refuse_start(command, EINVAL);
  ExecArguments arguments(command);
  Pipe output;
  Pipe failed;
  if (!failed.open() || (command.output != nullptr && !output.open())) refuse_start(command, errno);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) refuse_start(command, errno);
  if (pid == 0) become(arguments, parent, output.write, failed.write);
  setpgid(pid, pid);  // As the child does: who comes first does not matter then.
  close(std::exchange(failed.write, -1));
  int reason = 0;
  ssize_t got = 0;
  while ((got = read(failed.read, &reason, sizeof reason)) < 0 && errno == EINTR) {
  }
  if (got > 0) {
    static_cast<void>(status_of_child(pid));
    refuse_start(command, reason);
  }
  auto child = std::make_unique<Child>();
  child->pid = pid;
  child->sink = command.output;
  child->prefix = command.prefix;
  if (command.output != nullptr) {
    child->output = std::exchange(output.read, -1);
    fcntl(child->output, F_SETFL, O_NONBLOCK);
  }
  children_.push_back(std::move(child));
  return static_cast<int>(children_.size()) - 1;
}

void ProcessLauncher::poll(double seconds) {
  const double until = monotonic_seconds() + seconds;
  while (true) {
    bool moved = false;
    for (const auto& child : children_) {
      if (child->output >= 0) child->read_output();
      moved |= child->reap();
    }
    const double left = until - monotonic_seconds();
    if (moved || left <= 0) return;
    std::vector<pollfd> outputs;
    for (const auto& child : children_) {
      if (child->output >= 0) outputs.push_back({child->output, POLLIN, 0});
    }
    // No descriptor tells of the end of a process on all kernels, so it is asked for in slices.
    const int slice = left < 0.01 ? 1 : kSliceMilliseconds;
    if (::poll(outputs.data(), outputs.size(), slice) < 0 && errno == EINTR) return;
  }
}

int ProcessLauncher::num_running() const {
  int running = 0;
  for (const auto& child : children_) running += child->end ? 0 : 1;
  return running;
}

int ProcessLauncher::pid(int index) const {
  return children_.at(static_cast<std::size_t>(index))->pid;
}

const std::optional<ProcessEnd>& ProcessLauncher::end_of(int index) const {
  return children_.at(static_cast<std::size_t>(index))->end;
}

void ProcessLauncher::stop(double grace_s) {
  poll(0.0);
  if (num_running() == 0) return;
  for (const auto& child : children_) {
    if (!child->end) kill(-child->pid, SIGTERM);
  }
  const double until = monotonic_seconds() + grace_s;
  while (num_running() > 0 && monotonic_seconds() < until) poll(0.05);
  for (const auto& child : children_) {
    if (child->end) continue;
    // Looked up while their line to it still stands.
    const std::vector<int> others = descendants_of(child->pid);
    kill(-child->pid, SIGKILL);
    for (const int pid : others) kill(pid, SIGKILL);
  }
  while (num_running() > 0) poll(0.05);
}

void die_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A parent that ended before sends no signal any more.
  if (getppid() != parent) raise(SIGKILL);
}

void die_with_launcher(int launcher) {
  die_with_parent();
  for (int pid = getpid(); pid != launcher; pid = parent_of("/proc/" + std::to_string(pid))) {
    if (pid <= 1) raise(SIGKILL);
  }
}

}  // namespace shardsim
