#include "backends/rendezvous/process_launcher.hpp"

#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "tests/rendezvous/patience.hpp"

namespace shardsim {
namespace {

using test::eventually;
using test::is_gone;

ProcessCommand shell(const std::string& script, std::ostream* output = nullptr) {
  return {.argv = {"sh", "-c", script}, .environment = {}, .output = output, .prefix = "[0] "};
}

ProcessEnd end_of(ProcessLauncher& launcher, int index) {
  REQUIRE(eventually([&] {
    launcher.poll(0.05);
    return launcher.end_of(index).has_value();
  }));
  return *launcher.end_of(index);
}

// The number that a process has printed, after "[0] ".
int number_in(ProcessLauncher& launcher, const std::ostringstream& output) {
  REQUIRE(eventually([&] {
    launcher.poll(0.05);
    return output.str().find('\n') != std::string::npos;
  }));
  return std::stoi(output.str().substr(4));
}

}  // namespace

TEST_CASE("a process's end is told as it was") {
  ProcessLauncher launcher;
  const int fine = launcher.start(shell("exit 0"));
  const int failed = launcher.start(shell("exit 3"));
  const int killed = launcher.start(shell("kill -9 $$"));
  CHECK(end_of(launcher, fine).exit_code == 0);
  CHECK(end_of(launcher, failed).describe() == "exited with 3");
  CHECK(end_of(launcher, killed).signal == SIGKILL);
  CHECK(end_of(launcher, killed).exit_code == 137);
  CHECK(end_of(launcher, killed).describe() == "was killed by signal 9 (Killed)");
  CHECK(launcher.num_running() == 0);
}

TEST_CASE("lines of a process come with its prefix, whole, and its environment is as told") {
  ProcessLauncher launcher;
  std::ostringstream output;
  ProcessCommand command = shell("echo \"$ONE\"; echo $HOME >&2; printf last", &output);
  command.environment = {{"ONE", "first line"}, {"HOME", "/elsewhere"}};
  end_of(launcher, launcher.start(command));
  CHECK(output.str() == "[0] first line\n[0] /elsewhere\n[0] last\n");
}

TEST_CASE("a program that is not there is an error with its name") {
  ProcessLauncher launcher;
  try {
    launcher.start({.argv = {"no-such-program-here"}});
    FAIL("started");
  } catch (const Error& error) {
    CHECK(error.code() == "E1010");
    CHECK(error.exit_code() == ExitCode::backend_failed);
    CHECK_THAT(error.what(), Catch::Contains("no-such-program-here: No such file"));
  }
}

TEST_CASE("stopping ends a process that ignores SIGTERM, its children, and those in other groups") {
  std::ostringstream output;
  ProcessLauncher launcher;
  launcher.start(
      shell("trap '' TERM; setsid sleep 1000 & echo $!; while :; do sleep 1; done", &output));
  const int elsewhere = number_in(launcher, output);
  CHECK(!is_gone(elsewhere));
  launcher.stop(0.2);
  CHECK(launcher.num_running() == 0);
  CHECK(launcher.end_of(0)->signal == SIGKILL);
  CHECK(eventually([&] { return is_gone(elsewhere); }));
}

TEST_CASE("what a process leaves behind in its group ends with it") {
  std::ostringstream output;
  ProcessLauncher launcher;
  launcher.start(shell("sleep 1000 & echo $!", &output));
  const int left = number_in(launcher, output);
  CHECK(end_of(launcher, 0).exit_code == 0);
  CHECK(eventually([&] { return is_gone(left); }));
}

TEST_CASE("a stopped process ends, too, at the latest with its launcher") {
  int pid = 0;
  {
    std::ostringstream output;
    ProcessLauncher launcher;
    launcher.start(shell("echo $$; sleep 1000", &output));
    pid = number_in(launcher, output);
    CHECK(pid == launcher.pid(0));
    REQUIRE(kill(pid, SIGSTOP) == 0);
  }
  CHECK(is_gone(pid));
}

TEST_CASE("a process ends when the one that started it is killed") {
  std::ostringstream output;
  ProcessLauncher launcher;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int middle = fork();
  if (middle == 0) {
    ProcessLauncher inner;
    const int pid = inner.pid(inner.start({.argv = {"sleep", "1000"}}));
    [[maybe_unused]] const ssize_t written = write(ends[1], &pid, sizeof pid);
    while (true) inner.poll(1.0);
  }
  int pid = 0;
  REQUIRE(read(ends[0], &pid, sizeof pid) == sizeof pid);
  CHECK(!is_gone(pid));
  kill(middle, SIGKILL);
  REQUIRE(waitpid(middle, nullptr, 0) == middle);
  CHECK(eventually([&] { return is_gone(pid); }));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a process whose parent has ended before it was told to follow ends at once") {
  const int child = fork();
  if (child == 0) {
    die_with_parent();
    die_with_parent(getppid() + 1);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  const int kept = fork();
  if (kept == 0) {
    die_with_parent();
    _exit(7);
  }
  REQUIRE(waitpid(kept, &status, 0) == kept);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
}

// As a rank below mpirun, which has ended before the rank asked to follow it.
TEST_CASE("a process that is no descendant of its launcher any more ends at once") {
  const auto end_of = [](int launcher) {
    const int child = fork();
    if (child == 0) {
      die_with_launcher(launcher);
      _exit(7);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
  };
  CHECK(end_of(getpid()) == -7);
  CHECK(end_of(getppid()) == -7);
  const int ended = fork();
  if (ended == 0) _exit(0);
  REQUIRE(waitpid(ended, nullptr, 0) == ended);
  CHECK(end_of(ended) == SIGKILL);
}

TEST_CASE("an interrupt is remembered while it is guarded") {
  const InterruptGuard guard;
  CHECK(!InterruptGuard::interrupted());
  raise(SIGINT);
  CHECK(InterruptGuard::interrupted());
}

TEST_CASE("ranks are started by mpirun over loopback, or one by one") {
  const RankLaunch launch{.world_size = 4,
                          .argv = {"/opt/shardsim", "run"},
                          .rendezvous = "127.0.0.1:4000",
                          .token = "secret"};
  const ProcessCommand mpirun = mpirun_command(launch, true);
  std::string line;
  for (const std::string& word : mpirun.argv) line += word + " ";
  CHECK(line ==
        "mpirun -n 4 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml "
        "ob1,monitoring "
        "--mca btl tcp,self --mca btl_tcp_if_include lo /opt/shardsim run ");
  const auto has = [](const ProcessCommand& command, const char* name, const char* value) {
    return std::count(command.environment.begin(), command.environment.end(),
                      std::pair<std::string, std::string>(name, value)) == 1;
  };
  CHECK(has(mpirun, "SHARDSIM_RENDEZVOUS", "127.0.0.1:4000"));
  CHECK(has(mpirun, "SHARDSIM_TOKEN", "secret"));
  CHECK(has(mpirun, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"));
  const auto preloads = [](const ProcessCommand& command) {
    return std::count_if(command.environment.begin(), command.environment.end(),
                         [](const auto& variable) { return variable.first == "LD_PRELOAD"; });
  };
  CHECK(preloads(mpirun) == 0);
  RankLaunch local = launch;
  local.preload = "/opt/lib.so";
  CHECK(has(mpirun_command(local, true), "LD_PRELOAD", "/opt/lib.so"));
  CHECK(!has(mpirun_command(launch, false), "OMPI_ALLOW_RUN_AS_ROOT", "1"));
  const ProcessCommand plain = plain_rank_command(launch, 3);
  CHECK(plain.argv == launch.argv);
  CHECK(has(plain, "SHARDSIM_RANK", "3"));
  CHECK(has(plain, "SHARDSIM_WORLD_SIZE", "4"));
}

}  // namespace shardsim
