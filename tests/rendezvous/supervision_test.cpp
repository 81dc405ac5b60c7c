#include <sstream>

#include <catch2/catch.hpp>

#include "backends/rendezvous/process_launcher.hpp"
#include "backends/rendezvous/rendezvous_server.hpp"

#include "tests/rendezvous/patience.hpp"

// Ranks as processes, which die, stop, hang or call wrongly: the verdict names the right one, in
// time, and no process is left.
namespace shardsim {
namespace {

using test::eventually;
using test::is_gone;

// Ten signs of life fit in: enough for a loaded machine, and no test waits for long.
constexpr double kDeadline = 4.0;

class Run {
 public:
  explicit Run(const std::vector<std::string>& parts)
      : server_(
            {.world_size = static_cast<int>(parts.size()),
             .times = {
                 .arrival_s = 60.0, .deadline_s = kDeadline, .grace_s = 0.3, .farewell_s = 5.0}}) {
    const RankLaunch launch{.world_size = static_cast<int>(parts.size()),
                            .argv = {"/proc/self/exe", "[.rank]"},
                            .rendezvous = server_.address(),
                            .token = server_.token()};
    for (int rank = 0; rank < launch.world_size; ++rank) {
      ProcessCommand command = plain_rank_command(launch, rank);
      command.environment.emplace_back("RANK_PART", parts[static_cast<std::size_t>(rank)]);
      command.environment.emplace_back("RANK_DEADLINE", std::to_string(kDeadline));
      command.output = &output_;
      launcher_.start(command);
      pids_.push_back(launcher_.pid(rank));
    }
  }

  ~Run() {
    launcher_.stop(0.0);
    for (const int pid : pids_) CHECK(is_gone(pid));
  }

  // Does the work of the launching side of a run.
  Verdict watch() {
    std::optional<Verdict> verdict;
    std::vector<bool> told(pids_.size());
    REQUIRE(eventually([&] {
      launcher_.poll(0.02);
      for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
        const auto& end = launcher_.end_of(static_cast<int>(rank));
        if (!end || told[rank]) continue;
        told[rank] = true;
        server_.note_process_end(static_cast<int>(rank), end->describe());
      }
      verdict = server_.verdict();
      return verdict.has_value();
    }));
    return *verdict;
  }

  // Whether all of these end by themselves, with these codes.
  bool end_with(const std::vector<int>& ranks, int exit_code) {
    return eventually([&] {
      launcher_.poll(0.02);
      for (const int rank : ranks) {
        const auto& end = launcher_.end_of(rank);
        if (!end) return false;
        if (end->exit_code != exit_code) UNSCOPED_INFO("rank " << rank << " " << end->describe());
        CHECK(end->exit_code == exit_code);
      }
      return true;
    });
  }

  [[nodiscard]] int num_running() const { return launcher_.num_running(); }

 private:
  RendezvousServer server_;
  std::ostringstream output_;  // Output of the test cases within.
  ProcessLauncher launcher_;
  std::vector<int> pids_;
};

}  // namespace

TEST_CASE("ranks that do all they had to end with no verdict but success") {
  Run run({"end", "end", "end"});
  CHECK(!run.watch().failure);
  CHECK(run.end_with({0, 1, 2}, 0));
}

TEST_CASE("a rank that dies is named with how, and the others end") {
  Run run({"wait", "wait", "die", "time out"});
  const Verdict verdict = run.watch();
  REQUIRE(verdict.failure);
  CHECK(verdict.failure->code == "RANK_DIED");
  CHECK(verdict.exit_code() == ExitCode::backend_failed);
  CHECK_THAT(verdict.failure->diagnosis->summary,
             Catch::StartsWith("rank 2 (process ") && Catch::EndsWith("it exited with 3"));
  CHECK(run.end_with({0, 1, 3}, 5));
  CHECK(verdict.flight_records.size() == 3);
  REQUIRE(verdict.flight_records.count(0) == 1);
  const FlightRecord& flight = verdict.flight_records.at(0);
  REQUIRE(flight.size() == 2);
  CHECK(flight[0].state == FlightState::ended);
  CHECK(flight[1].state == FlightState::started);
  CHECK_THAT(to_text(flight), Catch::Contains("#1 all_reduce sum fp32 x 8 of group world"));
}

TEST_CASE("a rank that is stopped is named, though others report timeouts before that shows") {
  Run run({"time out", "stop", "wait"});
  const Verdict verdict = run.watch();
  REQUIRE(verdict.failure);
  CHECK(verdict.failure->code == "RANK_SILENT");
  CHECK(verdict.exit_code() == ExitCode::backend_failed);
  CHECK_THAT(
      verdict.failure->diagnosis->summary,
      Catch::StartsWith("rank 1 (process ") && Catch::EndsWith("has sent no heartbeat for 4 s"));
  CHECK(run.end_with({0, 2}, 5));
  CHECK(run.num_running() == 1);  // It is ended with the launcher.
}

TEST_CASE("a size that differs is named with both sides, and ranks end as of wrong communication") {
  Run run({"wait", "wrong", "wait"});
  const Verdict verdict = run.watch();
  REQUIRE(verdict.failure);
  CHECK(verdict.failure->code == "COLL_COUNT");
  CHECK(verdict.exit_code() == ExitCode::communication);
  const std::vector<DiagnosisSide>& sides = verdict.failure->diagnosis->sides;
  REQUIRE(sides.size() == 2);
  CHECK(sides[0].ranks == std::vector<int>{1});
  CHECK(sides[0].action == "all_reduce sum fp32 x 9");
  CHECK(std::string(sides[0].site.file) == "tests/rendezvous/process_rank.cpp");
  CHECK(sides[1].ranks == std::vector<int>{0, 2});
  CHECK(run.end_with({0, 1, 2}, 4));
}

TEST_CASE("timeouts of ranks that are all alive are one report of communication") {
  Run run({"time out", "time out", "hang"});
  const Verdict verdict = run.watch();
  REQUIRE(verdict.failure);
  CHECK(verdict.failure->code == "TIMEOUT");
  CHECK(verdict.exit_code() == ExitCode::communication);
  const Diagnosis& diagnosis = *verdict.failure->diagnosis;
  CHECK(diagnosis.sides.front().ranks == std::vector<int>{2});
  CHECK_THAT(diagnosis.summary, Catch::StartsWith("ranks 0-1 of 3 wait in vain"));
  // The one that hangs is ended by its own last resort.
  CHECK(run.end_with({0, 1}, 4));
  CHECK(run.end_with({2}, 5));
}

}  // namespace shardsim
