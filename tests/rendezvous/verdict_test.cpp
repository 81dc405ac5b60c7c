#include "backends/rendezvous/verdict.hpp"

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

using Kind = FailureEvent::Kind;

constexpr double kVerdictGrace = 0.5;

std::vector<RankActivity> four_ranks() {
  std::vector<RankActivity> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back({.rank = rank,
                     .arrived = true,
                     .told = true,
                     .ended = false,
                     .pid = 100 + rank,
                     .host = "node7",
                     .last_posted = "#5 all_reduce sum fp32 x 8 of group world",
                     .last_ended = "#4 barrier of group world"});
  }
  return ranks;
}

FailureEvent of_rank(Kind kind, int rank, double time_s) {
  FailureEvent event;
  event.kind = kind;
  event.time_s = time_s;
  event.ranks = {rank};
  event.seconds = 10.0;
  return event;
}

FailureEvent report(int rank, double time_s, ExitCode exit_code, const std::string& code) {
  FailureEvent event = of_rank(Kind::report, rank, time_s);
  event.failure = RunFailure{.exit_code = exit_code,
                             .code = code,
                             .message = code + " of a rank",
                             .fix = {},
                             .diagnosis = {}};
  return event;
}

FailureEvent diagnosed(int rank, double time_s, const std::string& code,
                       const std::string& action = "waits in all_reduce sum fp32 x 8") {
  Diagnosis diagnosis;
  diagnosis.code = code;
  diagnosis.summary = code + " found by rank " + std::to_string(rank);
  diagnosis.group = "world";
  diagnosis.members = {0, 1, 2, 3};
  diagnosis.sequence = 5;
  diagnosis.sides = {{.ranks = {rank}, .action = action, .site = {}},
                     {.ranks = {2}, .action = "did not answer it", .site = {}}};
  FailureEvent event = of_rank(Kind::report, rank, time_s);
  event.failure = RunFailure::from(std::move(diagnosis), ExitCode::communication);
  return event;
}

FailureEvent compared(double time_s) {
  FailureEvent event = diagnosed(0, time_s, "COLL_COUNT");
  event.kind = Kind::mismatch;
  event.ranks.clear();
  return event;
}

FailureEvent of_launcher(double time_s, ExitCode exit_code, const std::string& code) {
  FailureEvent event = report(0, time_s, exit_code, code);
  event.ranks.clear();
  return event;
}

FailureEvent timeout(int rank, double time_s) { return diagnosed(rank, time_s, "TIMEOUT"); }
FailureEvent broken(int rank, double time_s) {
  return report(rank, time_s, ExitCode::backend_failed, "E2001");
}

}  // namespace

TEST_CASE("of what goes wrong together, one thing is the cause") {
  const FailureEvent dead = of_rank(Kind::died, 3, 1.0);
  const FailureEvent silent = of_rank(Kind::silent, 2, 1.4);
  const FailureEvent missing = of_rank(Kind::missing, 1, 1.0);
  FailureEvent stalled = of_rank(Kind::stalled, 2, 1.0);
  stalled.detail = "training 1";
  stalled.seconds = 100.0;
  const FailureEvent usage = report(1, 1.3, ExitCode::bad_usage, "E0301");
  struct Row {
    const char* what;
    std::vector<FailureEvent> events;
    std::string code;
    ExitCode exit_code;
    std::string in_summary;
  };
  const Row table[] = {
      {"a death", {dead}, "RANK_DIED", ExitCode::backend_failed, "rank 3 (process 103 on node7)"},
      {"timeouts that follow a death",
       {timeout(0, 1.1), dead, timeout(1, 0.9)},
       "RANK_DIED",
       ExitCode::backend_failed,
       "rank 3"},
      {"broken connections that follow a death",
       {broken(0, 0.95), dead},
       "RANK_DIED",
       ExitCode::backend_failed,
       "rank 3"},
      {"a death long after another gave up",
       {timeout(0, 0.4), dead},
       "TIMEOUT",
       ExitCode::communication,
       "rank 0"},
      {"the first of two deaths",
       {of_rank(Kind::died, 0, 1.2), dead},
       "RANK_DIED",
       ExitCode::backend_failed,
       "rank 3"},
      {"silence before timeouts",
       {timeout(0, 1.0), silent},
       "RANK_SILENT",
       ExitCode::backend_failed,
       "rank 2 (process 102 on node7) has sent no heartbeat for 10 s"},
      {"a death before silence", {silent, dead}, "RANK_DIED", ExitCode::backend_failed, "rank 3"},
      {"silence before a broken connection",
       {broken(0, 1.0), silent},
       "RANK_SILENT",
       ExitCode::backend_failed,
       "rank 2"},
      {"two silent ranks",
       {silent, of_rank(Kind::silent, 1, 1.45)},
       "RANK_SILENT",
       ExitCode::backend_failed,
       "ranks 1-2 have sent no heartbeat"},
      {"a mismatch before all else",
       {timeout(0, 0.5), dead, silent, usage, broken(0, 0.6), compared(1.6)},
       "COLL_COUNT",
       ExitCode::communication,
       "found by rank 0"},
      {"a mismatch that a rank reports",
       {dead, diagnosed(1, 1.5, "A2A_SPLIT")},
       "A2A_SPLIT",
       ExitCode::communication,
       "found by rank 1"},
      {"what a rank says of itself",
       {timeout(0, 1.0), dead, usage},
       "E0301",
       ExitCode::bad_usage,
       ""},
      {"a comparison before what a rank makes of the same calls earlier",
       {diagnosed(2, 0.5, "P2P_MISMATCH"), compared(1.6)},
       "COLL_COUNT",
       ExitCode::communication,
       "found by rank 0"},
      {"an interrupt of the launching side before all else",
       {timeout(0, 0.5), dead, usage, compared(0.6), diagnosed(1, 0.5, "A2A_SPLIT"),
        of_launcher(1.6, ExitCode::interrupted, "E9000")},
       "E9000",
       ExitCode::interrupted,
       ""},
      {"processes that are gone do not hide why",
       {dead, of_launcher(0.9, ExitCode::backend_failed, "E1074")},
       "RANK_DIED",
       ExitCode::backend_failed,
       "rank 3"},
      {"an interrupt that a rank reports",
       {dead, report(0, 1.0, ExitCode::interrupted, "E0001")},
       "E0001",
       ExitCode::interrupted,
       ""},
      {"ranks that are not there",
       {missing, timeout(0, 1.0)},
       "RENDEZVOUS_MISSING",
       ExitCode::backend_failed,
       "rank 1 of 4 did not arrive within 10 s"},
      {"the first error of the backend",
       {broken(1, 1.2), broken(0, 1.3), timeout(2, 1.0)},
       "E2001",
       ExitCode::backend_failed,
       ""},
      {"one timeout", {timeout(0, 1.0)}, "TIMEOUT", ExitCode::communication, "found by rank 0"},
      {"several timeouts",
       {timeout(3, 1.1), timeout(0, 1.0)},
       "TIMEOUT",
       ExitCode::communication,
       "ranks 0,3 of 4 wait in vain, and all processes are alive"},
      {"a rank that lives and never comes",
       {stalled},
       "TIMEOUT",
       ExitCode::communication,
       "rank 2 of 4 has not come to \"training 1\", where all others wait: it is alive, but has "
       "made no call for 100 s"},
      {"a timeout before a rank that never comes",
       {stalled, timeout(0, 1.2)},
       "TIMEOUT",
       ExitCode::communication,
       "found by rank 0"},
      {"silence before a rank that never comes",
       {stalled, silent},
       "RANK_SILENT",
       ExitCode::backend_failed,
       "rank 2"},
      {"a timeout of the rendezvous",
       {report(1, 1.0, ExitCode::communication, "E1009")},
       "TIMEOUT",
       ExitCode::communication,
       "rank 1 of 4 waits in vain"},
  };
  for (const Row& row : table) {
    INFO(row.what);
    const RunFailure failure = decide_failure(row.events, four_ranks(), kVerdictGrace);
    CHECK(failure.code == row.code);
    CHECK(failure.exit_code == row.exit_code);
    CHECK((failure.diagnosis ? failure.diagnosis->code : failure.code) == row.code);
    const std::string summary = failure.diagnosis ? failure.diagnosis->summary : failure.message;
    CHECK_THAT(summary, Catch::Contains(row.in_summary));
    std::vector<FailureEvent> reversed(row.events.rbegin(), row.events.rend());
    CHECK(decide_failure(reversed, four_ranks(), kVerdictGrace).to_text() == failure.to_text());
  }
}

TEST_CASE("a death is told with how the process ended, and with what all did") {
  FailureEvent dead = of_rank(Kind::died, 3, 1.0);
  dead.detail = "was killed by signal 9 (Killed)";
  std::vector<RankActivity> ranks = four_ranks();
  ranks[1].ended = true;
  ranks[2].last_ended = ranks[2].last_posted;
  const std::vector<FailureEvent> events = {dead};
  const std::string text = decide_failure(events, ranks, kVerdictGrace).to_text();
  CHECK_THAT(text, Catch::Contains("has died: it was killed by signal 9 (Killed)"));
  CHECK_THAT(text, Catch::Contains("rank 3: its last call that is known is #5 all_reduce sum"));
  CHECK_THAT(text, Catch::Contains("rank 1: has finished"));
  CHECK_THAT(text, Catch::Contains("rank 2: has called nothing since #5"));
  CHECK_THAT(text, Catch::Contains("rank 0: last called #5"));
}

TEST_CASE("of a rank that can say nothing more, only what it has told is said") {
  for (const Kind kind : {Kind::died, Kind::silent}) {
    const std::vector<FailureEvent> events = {of_rank(kind, 3, 1.0)};
    std::vector<RankActivity> ranks = four_ranks();
    const auto action = [&] {
      return decide_failure(events, ranks, kVerdictGrace).diagnosis.value().sides.front().action;
    };
    ranks[3].last_ended = ranks[3].last_posted;
    CHECK(action() ==
          "its last call that is known is #5 all_reduce sum fp32 x 8 of group world, which had "
          "ended");
    ranks[3].last_posted.clear();
    ranks[3].last_ended.clear();
    CHECK(action() == "no call of it is known");
    // A rank that lives has said with a sign of life that there was none.
    ranks[1] = ranks[0] = ranks[3];
    ranks[0].rank = 0;
    ranks[1].rank = 1;
    ranks[1].told = false;
    const std::string text = decide_failure(events, ranks, kVerdictGrace).to_text();
    CHECK_THAT(text, Catch::Contains("rank 0: has called nothing yet"));
    CHECK_THAT(text, Catch::Contains("rank 1: no call of it is known"));
  }
}

TEST_CASE("a rank that never comes to a barrier is told with its last call, then who waits") {
  FailureEvent stalled = of_rank(Kind::stalled, 2, 1.0);
  stalled.detail = "training 1";
  const std::vector<FailureEvent> events = {stalled};
  const Diagnosis diagnosis = decide_failure(events, four_ranks(), kVerdictGrace).diagnosis.value();
  REQUIRE(diagnosis.sides.size() == 2);
  CHECK(diagnosis.sides[0].ranks == std::vector<int>{2});
  CHECK_THAT(diagnosis.sides[0].action, Catch::StartsWith("last called #5 all_reduce"));
  CHECK(diagnosis.sides[1].ranks == std::vector<int>{0, 1, 3});
  CHECK(diagnosis.sides[1].action == "waits at \"training 1\"");
}

TEST_CASE("timeouts are one report: who has not answered first, then who waits in what") {
  std::vector<RankActivity> ranks = four_ranks();
  ranks[2].ended = true;
  const std::vector<FailureEvent> events = {diagnosed(1, 1.2, "TIMEOUT", "waits in barrier"),
                                            timeout(0, 1.0),
                                            diagnosed(3, 1.1, "TIMEOUT", "waits in barrier")};
  const RunFailure failure = decide_failure(events, ranks, kVerdictGrace);
  REQUIRE(failure.diagnosis);
  const Diagnosis& diagnosis = *failure.diagnosis;
  CHECK(diagnosis.group == "world");
  CHECK(diagnosis.sequence == 5);
  REQUIRE(diagnosis.sides.size() == 3);
  CHECK(diagnosis.sides[0].ranks == std::vector<int>{2});
  CHECK(diagnosis.sides[0].action == "has finished");
  CHECK(diagnosis.sides[1].ranks == std::vector<int>{0});
  CHECK(diagnosis.sides[1].action == "waits in all_reduce sum fp32 x 8");
  CHECK(diagnosis.sides[2].ranks == std::vector<int>{1, 3});
}

}  // namespace shardsim
