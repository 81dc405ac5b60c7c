#include "sim/question/search_turns.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

// Searches that each need some turns. The clock moves by a tenth of a turn at each question.
struct TurnTaking {
  explicit TurnTaking(std::size_t count, int at_a_time)
      : turns(count, {.jobs = at_a_time, .turn_s = 1.0, .first_turn_s = 4.0},
              [this] { return static_cast<double>(ticks++) * 0.1; }),
        steps(count) {}

  void work(std::size_t search, int num_steps) {
    for (int i = 0; i < num_steps; ++i) {
      turns.wait(search, [this] { return is_over.load(); });
      if (is_over) break;
      most_working = std::max(most_working.load(), ++num_working);
      ++steps[search];
      if (steps[search] == 1) turns.note(search, found);
      --num_working;
    }
    turns.leave(search);
  }

  const SearchState found = {.progress = {.simulated = 1, .best = SimulatedPoint(), .gap = {}},
                             .no_layout = {}};
  std::atomic<long> ticks = 0;
  SearchTurns turns;
  std::vector<std::atomic<int>> steps;
  std::atomic<int> num_working = 0;
  std::atomic<int> most_working = 0;
  std::atomic<bool> is_over = false;
};

}  // namespace

TEST_CASE("searches that take turns all end, and no more work at a time than may") {
  TurnTaking taking(5, 2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 5; ++i) threads.emplace_back([&taking, i] { taking.work(i, 200); });
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& steps : taking.steps) CHECK(steps == 200);
  CHECK(taking.most_working <= 2);
  CHECK(taking.turns.all_had_a_turn());
}

TEST_CASE("who is asked whether a search is over may wait for another search") {
  TurnTaking taking(2, 1);
  std::thread first([&taking] { taking.turns.wait(0, [] { return false; }); });
  first.join();  // The first works, so the second has to ask.
  bool has_looked = false;
  taking.turns.wait(1, [&] {
    has_looked = taking.turns.state_of(0).progress.simulated == 0;
    return true;
  });
  CHECK(has_looked);
}

TEST_CASE("a search's first turn ends with its find, and no search starves another") {
  TurnTaking taking(2, 1);
  CHECK_FALSE(taking.turns.all_had_a_turn());
  std::thread second([&taking] { taking.work(1, 30); });
  std::thread first([&taking] { taking.work(0, 1'000'000); });
  second.join();  // It would wait for all of the first's steps, if that kept its turn.
  CHECK(taking.turns.all_had_a_turn());
  CHECK(taking.steps[0] < 1'000'000);
  taking.is_over = true;
  first.join();
}

TEST_CASE("a search that waits returns when all is over") {
  TurnTaking taking(2, 1);
  taking.turns.wait(0, [] { return false; });  // Works from now on.
  taking.is_over = true;
  taking.turns.wait(1, [&taking] { return taking.is_over.load(); });
  taking.turns.leave(1);
  CHECK_FALSE(taking.turns.all_had_a_turn());
  taking.turns.leave(0);
  CHECK(taking.turns.all_had_a_turn());
}

TEST_CASE("all cores are shared by the searches that have not ended") {
  SearchTurns turns(3, {.jobs = 5, .turn_s = 1.0, .first_turn_s = 4.0}, [] { return 0.0; });
  const auto jobs = [&turns] {
    return std::vector<int>{turns.jobs_of(0), turns.jobs_of(1), turns.jobs_of(2)};
  };
  CHECK(jobs() == std::vector<int>{2, 2, 1});
  turns.leave(0);
  CHECK(turns.jobs_of(1) == 3);
  CHECK(turns.jobs_of(2) == 2);
  turns.leave(2);
  CHECK(turns.jobs_of(1) == 5);
}

TEST_CASE("more searches than cores have one core each while they work") {
  const SearchTurns turns(7, {.jobs = 2, .turn_s = 1.0, .first_turn_s = 4.0}, [] { return 0.0; });
  for (std::size_t search = 0; search < 7; ++search) CHECK(turns.jobs_of(search) == 1);
}

TEST_CASE("a search is decided once its best is proven, or nothing can fit") {
  SearchTurns turns(3, {.jobs = 1, .turn_s = 1.0, .first_turn_s = 4.0}, [] { return 0.0; });
  SearchState state;
  state.progress.best = SimulatedPoint();
  state.progress.gap = 0.01;
  turns.note(0, state);
  CHECK_FALSE(turns.has_decided(0));
  state.progress.gap = 0.0;
  turns.note(0, state);
  CHECK(turns.has_decided(0));
  turns.note(
      1, {.progress = {.simulated = 1, .best = {}, .gap = {}, .fits_none = true}, .no_layout = {}});
  CHECK(turns.has_decided(1));
  CHECK_FALSE(turns.has_decided(2));
}

}  // namespace shardsim::test
