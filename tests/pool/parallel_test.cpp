#include "sim/console/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "reports/json_writer.hpp"
#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

// Pipelines, experts, elastic ranks and real numbers: much of what a run can touch.
const std::vector<std::string> kScenarios = {"scenarios/verify-llama-tp2-cp2-pp2-dp4-ep2.json",
                                             "scenarios/verify-gpt-zero2.json",
                                             "scenarios/verify-llama-elastic.json",
                                             "scenarios/verify-gpt-dropout.json",
                                             "scenarios/verify-llama-pp2-interleaved.json",
                                             "scenarios/verify-llama-int8.json",
                                             "scenarios/verify-gpt-tp2-pp2-dp2-fp16.json",
                                             "scenarios/quickstart.json"};

std::vector<std::string> results_with(int jobs) {
  std::vector<std::string> results(kScenarios.size());
  run_parallel(kScenarios.size(), jobs,
               {.body =
                    [&](std::size_t i) {
                      results[i] = to_json(run_scenario(load_scenario(kScenarios[i])).result);
                    },
                .finished = nullptr,
                .stop = nullptr});
  return results;
}

}  // namespace

TEST_CASE("runs beside each other give what they give alone", "[pool]") {
  CHECK(results_with(4) == results_with(1));
}

TEST_CASE("every index is done once, whatever the number of jobs", "[pool]") {
  for (const int jobs : {1, 2, 7}) {
    std::vector<int> done(100, 0);
    std::vector<int> finished;
    run_parallel(done.size(), jobs,
                 {.body = [&](std::size_t i) { ++done[i]; },
                  .finished = [&](std::size_t i) { finished.push_back(static_cast<int>(i)); },
                  .stop = nullptr});
    CHECK(done == std::vector<int>(100, 1));
    std::sort(finished.begin(), finished.end());
    for (int i = 0; i < 100; ++i) CHECK(finished.at(static_cast<std::size_t>(i)) == i);
  }
}

// The index that has begun waits for all others, but not for ever: without a second thread, in
// vain.
TEST_CASE("cores that become free during the work are taken at the next start", "[pool]") {
  std::atomic<int> may_work = 1;
  std::atomic<int> done = 0;
  std::atomic<int> done_before_last = 0;
  std::set<std::thread::id> before;
  std::mutex mutex;
  std::set<std::thread::id> after;
  run_parallel(20, 4,
               {.body =
                    [&](std::size_t i) {
                      {
                        const std::lock_guard lock(mutex);
                        (i < 10 ? before : after).insert(std::this_thread::get_id());
                      }
                      if (i == 9) may_work = 2;
                      for (int turns = 0; i == 10 && done < 19 && turns < 50'000'000; ++turns) {
                        std::this_thread::yield();
                      }
                      if (i == 10) done_before_last = done.load();
                      ++done;
                    },
                .finished = nullptr,
                .stop = nullptr,
                .at_a_time = [&may_work] { return may_work.load(); }});
  CHECK(before == std::set<std::thread::id>{std::this_thread::get_id()});
  CHECK(after.size() == 2);
  CHECK(done_before_last == 19);
  CHECK(done == 20);
}

TEST_CASE("after a failure nothing is started, and the first index's is thrown", "[pool]") {
  std::atomic<int> started = 0;
  const ParallelWork work{.body =
                              [&](std::size_t i) {
                                ++started;
                                throw std::runtime_error("index " + std::to_string(i));
                              },
                          .finished = nullptr,
                          .stop = nullptr};
  CHECK_THROWS_WITH(run_parallel(1000, 3, work), "index 0");
  CHECK(started <= 3);
}

TEST_CASE("who asks to stop gets what was started, and no more", "[pool]") {
  std::vector<std::size_t> finished;
  run_parallel(1000, 1,
               {.body = [](std::size_t) {},
                .finished = [&](std::size_t i) { finished.push_back(i); },
                .stop = [&] { return finished.size() == 3; }});
  CHECK(finished == std::vector<std::size_t>{0, 1, 2});
}

}  // namespace shardsim
