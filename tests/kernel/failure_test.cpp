#include <new>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/engine.hpp"

#include "tests/units.hpp"

// Which failure a run reports when there are several, and as what.
namespace shardsim {
namespace {

using test::ps;

class Unaffordable final : public Operation {
 public:
  Unaffordable() { expect(1); }

 protected:
  Time launch(Time) override { throw std::bad_alloc(); }
};

}  // namespace

TEST_CASE(
    "P11: of several ranks that fail, the earliest in virtual time is named, then the lowest") {
  for (std::uint64_t seed = 0; seed <= 20; ++seed) {
    Engine engine({.num_ranks = 5, .interleaving_seed = seed});
    try {
      engine.run([](RankState& rank) {
        rank.compute("work", ps(rank.index() < 2 ? 20 - rank.index() : 10));
        throw UsageError("E9999", "planted");
      });
      FAIL("the run must throw");
    } catch (const RankFailed& failure) {
      CHECK(failure.rank() == 2);
    }
  }
}

TEST_CASE("a communication error counts like any other failure") {
  for (std::uint64_t seed = 0; seed <= 20; ++seed) {
    for (const int first : {0, 1, 2}) {
      Engine engine({.num_ranks = 3, .interleaving_seed = seed});
      try {
        engine.run([&](RankState& rank) {
          rank.compute("work", ps(rank.index() == first ? 5 : 10));
          if (rank.index() == 0) throw UsageError("E9999", "planted");
          if (rank.index() == 2) {  // Cannot throw, as a dropped handle.
            engine.fail({.code = "LEAK", .summary = "planted", .time = rank.now(), .sides = {}}, 2);
            return;
          }
          throw CommunicationError({.code = "PLANTED", .summary = "planted", .sides = {}});
        });
        FAIL("the run must throw");
      } catch (const Error& failure) {
        const char* expected[] = {"E9999", "PLANTED", "LEAK"};
        CHECK(failure.code() == expected[first]);
      }
    }
  }
}

TEST_CASE("memory that the host does not have is a limit, not a bug") {
  Engine engine({.num_ranks = 2});
  try {
    engine.run([](RankState& rank) {
      if (rank.index() == 1) throw std::bad_alloc();
    });
    FAIL("the run must throw");
  } catch (const RankFailed& failure) {
    CHECK(failure.exit_code() == ExitCode::does_not_fit);
    CHECK(failure.code() == "E0308");
    CHECK(failure.rank() == 1);
    CHECK(!failure.fix().empty());
  }
  Engine another({.num_ranks = 1});
  Unaffordable operation;
  try {
    another.run([&](RankState& rank) {
      operation.settle(another, rank.now());
      another.wait(rank, operation);
    });
    FAIL("the run must throw");
  } catch (const LimitError& failure) {
    CHECK(failure.code() == "E0308");
  }
}

}  // namespace shardsim
