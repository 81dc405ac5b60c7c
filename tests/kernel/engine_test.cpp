#include "sim/kernel/engine.hpp"

#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/units.hpp"

namespace shardsim {
namespace {

using test::ps;

// An operation of fixed length that `members` ranks take part in.
class Meeting final : public Operation {
 public:
  Meeting(int members, Time length) : length_(length) { expect(members); }

 protected:
  Time launch(Time start) override { return start + length_; }

 private:
  Time length_;
};

// Brings back one rank after the other, the one that left last first.
class Visitors final : public OutsideEvents {
 public:
  explicit Visitors(Engine& engine) : engine_(engine) { engine.set_outside(this); }
  void wait_for_ranks() override {
    if (fails) throw std::runtime_error("nobody comes");
    RankState* const rank = outside.back();
    outside.pop_back();
    order.push_back(rank->index());
    engine_.come_back(*rank);
  }
  void leave(RankState& rank) {
    outside.push_back(&rank);
    engine_.wait_outside(rank);
  }

  std::vector<RankState*> outside;
  std::vector<int> order;
  bool fails = false;

 private:
  Engine& engine_;
};

}  // namespace

TEST_CASE("ranks wait for what is outside of the run while others go on") {
  Engine engine({.num_ranks = 3});
  Visitors visitors(engine);
  Meeting meeting(2, ps(100));
  bool met = false;
  engine.run([&](RankState& rank) {
    if (rank.index() < 2) {
      meeting.settle(engine, rank.now());
      engine.wait(rank, meeting);
      met = true;
    }
    visitors.leave(rank);
    CHECK(met);  // Operations come before what is outside.
  });
  CHECK(visitors.order == std::vector<int>{0, 1, 2});
  CHECK(engine.rank(0).now() == ps(100));
  CHECK(engine.rank(2).now() == ps(0));
}

TEST_CASE("a failure outside, or of a rank, ends those that wait outside") {
  for (const bool fails : {true, false}) {
    Engine engine({.num_ranks = 3});
    Visitors visitors(engine);
    visitors.fails = fails;
    int unwound = 0;
    const auto run = [&] {
      engine.run([&](RankState& rank) {
        struct Unwound {
          int& count;
          ~Unwound() { ++count; }
        } const unwinds{unwound};
        if (!fails && rank.index() == 2) throw std::runtime_error("rank 2 has enough");
        visitors.leave(rank);
        FAIL("nobody was brought back");
      });
    };
    CHECK_THROWS_WITH(run(), Catch::Contains(fails ? "nobody comes" : "rank 2 has enough"));
    CHECK(unwound == 3);
  }
}

TEST_CASE("a meeting starts when its last member arrives and all leave at its end") {
  Engine engine({.num_ranks = 3});
  Meeting meeting(3, ps(100));
  engine.run([&](RankState& rank) {
    rank.compute("work", ps(10 * rank.index()));
    meeting.settle(engine, rank.now());
    engine.wait(rank, meeting);
  });
  for (int index = 0; index < 3; ++index) {
    const RankState& rank = engine.rank(index);
    CHECK(rank.now() == ps(120));
    CHECK(rank.split().compute == ps(10 * index));
    CHECK(rank.split().bubble == ps(20 - 10 * index));
    CHECK(rank.split().exposed_comm == ps(100));
  }
}

TEST_CASE("computing between post and wait hides the meeting") {
  Engine engine({.num_ranks = 2});
  Meeting meeting(2, ps(100));
  engine.run([&](RankState& rank) {
    meeting.settle(engine, rank.now());
    rank.compute("overlapped", ps(70 + 60 * rank.index()));
    engine.wait(rank, meeting);
  });
  CHECK(engine.rank(0).now() == ps(100));
  CHECK(engine.rank(0).split().exposed_comm == ps(30));
  CHECK(engine.rank(1).now() == ps(130));
  CHECK(engine.rank(1).split().exposed_comm == ps(0));
}

TEST_CASE("an operation may follow one whose end is not known yet") {
  // first: 0..100 (rank 1 arrives at 50, so 50..150); second follows first: 150..151.
  Engine engine({.num_ranks = 2});
  Meeting first(2, ps(100));
  Meeting second(1, ps(1));
  engine.run([&](RankState& rank) {
    if (rank.index() == 1) rank.compute("late", ps(50));
    first.settle(engine, rank.now());
    if (rank.index() == 0) {
      second.follow(engine, first);
      engine.wait(rank, second);
    }
    engine.wait(rank, first);
  });
  CHECK(second.start() == ps(150));
  CHECK(engine.rank(0).now() == ps(151));
}

TEST_CASE("a run where everybody waits ends at once and unwinds every rank") {
  Engine engine({.num_ranks = 8});
  Meeting meeting(9, ps(1));
  int unwound = 0;
  struct OnUnwind {
    int& count;
    ~OnUnwind() { ++count; }
  };
  CHECK_THROWS_AS(engine.run([&](RankState& rank) {
    const OnUnwind guard{unwound};
    meeting.settle(engine, rank.now());
    engine.wait(rank, meeting);
  }),
                  CommunicationError);
  CHECK(unwound == 8);
}

TEST_CASE("P11: a failing rank ends the run, is named, and the others join") {
  Engine engine({.num_ranks = 4});
  Meeting meeting(4, ps(1));
  try {
    engine.run([&](RankState& rank) {
      if (rank.index() == 2) throw UsageError("E9999", "planted");
      meeting.settle(engine, rank.now());
      engine.wait(rank, meeting);
    });
    FAIL("the run must throw");
  } catch (const RankFailed& failure) {
    CHECK(failure.rank() == 2);
    CHECK(failure.code() == "E9999");
    CHECK(std::string(failure.what()) == "rank 2 failed: planted");
  }
}

TEST_CASE("a rank that waits inside a catch block rethrows its own exception") {
  // Boost 1.81 shares the record of handled exceptions among fibers; this is the regression test
  // for keeping it apart. Each rank waits in its handler and must still rethrow its own number.
  constexpr int kRanks = 5;
  constexpr int kRounds = 3;
  Engine engine({.num_ranks = kRanks});
  std::deque<Meeting> rounds;
  for (int i = 0; i < kRanks * kRounds; ++i) rounds.emplace_back(1, ps(1 + i % 4));
  int right = 0;
  engine.run([&](RankState& rank) {
    for (int round = 0; round < kRounds; ++round) {
      try {
        try {
          throw rank.index();
        } catch (...) {
          Meeting& pause = rounds[static_cast<std::size_t>(rank.index() * kRounds + round)];
          pause.settle(engine, rank.now());
          engine.wait(rank, pause);
          throw;
        }
      } catch (int value) {
        if (value == rank.index()) ++right;
      }
    }
  });
  CHECK(right == kRanks * kRounds);
}

TEST_CASE("virtual time that leaves its range is a named limit") {
  Engine engine({.num_ranks = 1});
  try {
    engine.run([&](RankState& rank) {
      for (int i = 0; i < 3; ++i) rank.compute("forever", ps(std::int64_t{1} << 62));
    });
    FAIL("the run must throw");
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::does_not_fit);
    CHECK(error.code() == "E0301");
  }
}

TEST_CASE("the engine refuses rank counts it has no fibers for") {
  CHECK_THROWS_AS(Engine({.num_ranks = 0}), LimitError);
  CHECK_THROWS_AS(Engine({.num_ranks = Engine::kMaxRanks + 1}), LimitError);
}

TEST_CASE("P5: the trace hash is that of the events, not of the interleaving") {
  const auto hash_of = [](std::uint64_t interleaving_seed) {
    constexpr int kRanks = 16;
    std::vector<int> order;
    Engine engine({.num_ranks = kRanks, .interleaving_seed = interleaving_seed});
    std::deque<Meeting> meetings;
    for (int i = 0; i < 10; ++i) meetings.emplace_back(kRanks, ps(5 + i));
    engine.run([&](RankState& rank) {
      for (Meeting& meeting : meetings) {
        order.push_back(rank.index());
        rank.compute("work", ps(rank.index()));
        meeting.settle(engine, rank.now());
        engine.wait(rank, meeting);
      }
    });
    return std::pair(engine.trace_hash(), order);
  };
  const auto in_order = hash_of(0);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto shuffled = hash_of(seed);
    CHECK(shuffled.first == in_order.first);
    CHECK(shuffled.second != in_order.second);
  }
}

TEST_CASE("when an operation started is part of the hash, not only when it ended") {
  const auto hash_of = [](std::int64_t start) {
    Engine engine({.num_ranks = 1});
    Meeting meeting(1, ps(100 - start));
    engine.run([&](RankState& rank) {
      meeting.settle(engine, ps(start));
      engine.wait(rank, meeting);
    });
    CHECK(engine.rank(0).now() == ps(100));
    return engine.trace_hash();
  };
  CHECK(hash_of(10) != hash_of(40));
}

TEST_CASE("the order of launches changes who runs next, not what happened when") {
  // Two pairs of ranks, each with meetings of its own; the second pair is ahead in virtual time.
  const auto run = [](LaunchOrder launch_order) {
    Engine engine({.num_ranks = 4, .launch_order = launch_order});
    std::vector<int> order;
    std::deque<Meeting> meetings;
    for (int i = 0; i < 6; ++i) meetings.emplace_back(2, ps(10));
    engine.run([&](RankState& rank) {
      const int pair = rank.index() / 2;
      rank.compute("work", ps(5 * pair + rank.index()));
      for (int i = 0; i < 3; ++i) {
        Meeting& meeting = meetings[static_cast<std::size_t>(3 * pair + i)];
        meeting.settle(engine, rank.now());
        engine.wait(rank, meeting);
        if (rank.index() % 2 == 0) order.push_back(pair);
      }
    });
    return std::pair(engine.trace_hash(), order);
  };
  const auto earliest = run(LaunchOrder::earliest_start);
  const auto newest = run(LaunchOrder::newest_first);
  CHECK(earliest.first == newest.first);
  CHECK(earliest.second == std::vector<int>{0, 1, 0, 1, 0, 1});
  CHECK(newest.second == std::vector<int>{1, 1, 1, 0, 0, 0});
}

TEST_CASE("an operation that cannot be priced ends the run with its own error") {
  // Starts near the end of the range of virtual time: start + length does not fit.
  Engine engine({.num_ranks = 2});
  Meeting meeting(2, ps(std::int64_t{1} << 62));
  try {
    engine.run([&](RankState& rank) {
      rank.compute("long", ps(std::int64_t{1} << 62));
      meeting.settle(engine, rank.now());
      engine.wait(rank, meeting);
    });
    FAIL("the run must throw");
  } catch (const LimitError& error) {
    CHECK(error.code() == "E0301");
  }
}

TEST_CASE("a run inside a handler leaves the exception in hand alone") {
  try {
    throw std::runtime_error("outer");
  } catch (...) {
    Engine engine({.num_ranks = 2});
    Meeting meeting(2, ps(1));
    engine.run([&](RankState& rank) {
      CHECK(std::current_exception() == nullptr);
      meeting.settle(engine, rank.now());
      engine.wait(rank, meeting);
    });
    REQUIRE(std::current_exception() != nullptr);
    CHECK_THROWS_WITH(std::rethrow_exception(std::current_exception()), "outer");
  }
}

TEST_CASE("16,384 ranks with guarded stacks meet and part") {
  Engine engine({.num_ranks = Engine::kMaxRanks});
  Meeting meeting(Engine::kMaxRanks, ps(3));
  engine.run([&](RankState& rank) {
    meeting.settle(engine, rank.now());
    engine.wait(rank, meeting);
  });
  CHECK(engine.rank(Engine::kMaxRanks - 1).now() == ps(3));
}

TEST_CASE("ranks that are represented do not run, and have the state of who does") {
  // More than have fibers, of which every third stands for the two after it.
  constexpr int kRanks = 3 * Engine::kMaxRanks;
  EngineOptions options{.num_ranks = kRanks};
  for (int rank = 0; rank < kRanks; ++rank) options.representative.push_back(rank - rank % 3);
  Engine engine(std::move(options));
  Meeting meeting(Engine::kMaxRanks, ps(3));
  std::vector<int> ran;
  engine.run([&](RankState& rank) {
    ran.push_back(rank.index());
    rank.compute("work", ps(rank.index()));
    meeting.settle(engine, Time());
    engine.wait(rank, meeting);
  });
  CHECK(ran.size() == static_cast<std::size_t>(Engine::kMaxRanks));
  CHECK(engine.num_ranks() == kRanks);
  CHECK(engine.rank(kRanks - 1).index() == kRanks - 3);
  CHECK(engine.rank(8).now() == ps(6));
  CHECK(engine.runs(6));
  CHECK_FALSE(engine.runs(7));
  CHECK_THROWS_AS(Engine({.num_ranks = Engine::kMaxRanks + 1, .representative = {}}), LimitError);
}

TEST_CASE("progress is told of ranks that start, wait and compute, not of operations only") {
  constexpr int kRanks = 8;
  constexpr int kTicks = 3;
  int told = 0;
  Engine engine({.num_ranks = kRanks, .on_progress = [&told] { ++told; }, .progress_interval = 10});
  Meeting meeting(kRanks, ps(1));  // One operation, however many ranks there are.
  engine.run([&](RankState& rank) {
    for (int i = 0; i < kTicks; ++i) engine.tick();
    meeting.settle(engine, rank.now());
    engine.wait(rank, meeting);
  });
  CHECK(told == kRanks * (1 + kTicks + 1) / 10);
}

TEST_CASE("a run ends with what the report of progress throws, wherever that is") {
  struct Enough {};
  constexpr int kRanks = 3;
  for (std::uint64_t ticks = 1; ticks <= 2 * kRanks; ++ticks) {
    INFO(ticks);  // Ranks have not begun, or some wait.
    int told = 0;
    Engine engine({.num_ranks = kRanks,
                   .on_progress =
                       [&told] {
                         ++told;
                         throw Enough();
                       },
                   .progress_interval = ticks});
    Meeting meeting(kRanks, ps(1));
    CHECK_THROWS_AS(engine.run([&](RankState& rank) {
      meeting.settle(engine, rank.now());
      engine.wait(rank, meeting);
    }),
                    Enough);
    CHECK(told >= 1);
  }
}

}  // namespace shardsim
