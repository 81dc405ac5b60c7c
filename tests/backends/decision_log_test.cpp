#include "backends/decision_log.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/backends/fiber_fixture.hpp"

namespace shardsim::test {

namespace {

// Ranks decide on data: rank r says yes in the rounds that r + 1 divides.
struct DecidingProgram {
  int rounds = 4;
  std::vector<std::string> answers = std::vector<std::string>(2);

  void run(FiberOptions options) {
    run_ranks(
        2,
        [this](Runtime& runtime, Communicator& world) {
          std::string& answer = answers[static_cast<std::size_t>(world.rank())];
          for (int round = 0; round < rounds; ++round) {
            const bool yes = round % (world.rank() + 1) == 0;
            answer += runtime.decide("go on", yes, false) ? 'y' : 'n';
            if (round == 2) answer += runtime.decide("turn", true, true) ? 'y' : 'n';
          }
        },
        std::move(options));
  }
};

DecisionLog recorded() {
  DecisionLog log(2);
  FiberOptions options;
  options.record = &log;
  DecidingProgram().run(options);
  return log;
}

std::string refusal(DecidingProgram program, const DecisionLog& log) {
  DecisionReplay replay(log);
  FiberOptions options;
  options.has_data = false;
  options.replay = &replay;
  try {
    program.run(options);
    replay.finish();
  } catch (const Error& error) {
    CHECK(error.code() == "E0506");
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a run with data decides on them and records it, by name and rank") {
  const DecisionLog log = recorded();
  CHECK(log.of(0, "go on") == DecisionLog::Answers{true, true, true, true});
  CHECK(log.of(1, "go on") == DecisionLog::Answers{true, false, true, false});
  CHECK(log.of(1, "turn") == DecisionLog::Answers{true});
  CHECK(log.of(1, "never asked").empty());
  CHECK(log.all().size() == 2);
}

TEST_CASE("a run without data decides as planned, or as the record it replays") {
  FiberOptions options;
  options.has_data = false;
  DecisionLog untouched(2);
  options.record = &untouched;
  DecidingProgram planned;
  planned.run(options);
  CHECK(planned.answers == std::vector<std::string>{"nnnyn", "nnnyn"});
  CHECK(untouched.all().empty());

  const DecisionLog log = recorded();
  DecisionReplay replay(log);
  options.replay = &replay;
  DecidingProgram replayed;
  replayed.run(options);
  replay.finish();
  CHECK(replayed.answers == std::vector<std::string>{"yyyyy", "ynyyn"});
}

TEST_CASE("a record of another program is refused: too few decisions, or too many") {
  const DecisionLog log = recorded();
  CHECK(refusal({}, log).empty());
  CHECK(refusal({.rounds = 5}, log) ==
        "rank 0 failed: the replayed record has 4 decisions \"go on\" of rank 0, this run takes "
        "more");
  CHECK(refusal({.rounds = 3}, log) ==
        "the replayed record has 4 decisions \"go on\" of rank 0, this run took 3");
  CHECK(refusal({}, DecisionLog(2)) ==
        "rank 0 failed: the replayed record has 0 decisions \"go on\" of rank 0, this run takes "
        "more");
}

}  // namespace shardsim::test
