#include "sim/question/ask.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

// Two machines; the test takes the layouts of the first away, so its search ends at once.
Question question_of_two() {
  SearchRequest shared;
  shared.model = "gpt2";
  shared.global_batch_size = 8;
  shared.fixed = {"recompute=none", "schedule=none,1f1b", "micro_batch_size=1", "cp=1"};
  return read_question({.gpus = "4,8",
                        .gpu = "h100",
                        .usd_per_gpu_hour = {},
                        .tokens = {},
                        .deadline = {},
                        .budget = {}},
                       shared);
}

// The answer, and the threads that simulated.
struct AskedAnswer {
  Answer answer;
  std::set<std::thread::id> threads;
};

AskedAnswer ask_with(int jobs) {
  AskedAnswer asked;
  std::mutex mutex;
  std::atomic<int> num_looks = 0;
  AskHooks hooks;
  hooks.jobs = jobs;
  hooks.seconds = [] { return 0.0; };
  hooks.on_progress = [&num_looks](const std::string&) { ++num_looks; };
  hooks.stop = [&] {
    // Looks are 50 ms apart: by the third the search without layouts has ended.
    while (num_looks < 3) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    asked.threads.insert(std::this_thread::get_id());
    return SearchStop::none;
  };
  const Question question = question_of_two();
  std::vector<PreparedMachine> machines = prepare_machines(question);
  machines.front().no_layout = "none";
  asked.answer = ask(question, machines, hooks);
  // The caller watches; it asks while it writes the answer.
  asked.threads.erase(std::this_thread::get_id());
  return asked;
}

}  // namespace

TEST_CASE("a search whose neighbours have ended works on all cores, with the same answer") {
  const AskedAnswer alone = ask_with(1);
  const AskedAnswer shared = ask_with(2);
  CHECK(alone.threads.size() == 1);
  CHECK(shared.threads.size() >= 2);
  REQUIRE(alone.answer.rows.size() == 2);
  CHECK(alone.answer.rows[0].machine.num_gpus == 8);
  CHECK(alone.answer.rows[0].is_complete);
  CHECK(to_json(alone.answer) == to_json(shared.answer));
}

}  // namespace shardsim::test
