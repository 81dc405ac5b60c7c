#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/mutants/faulty_communicator.hpp"

// Strategies whose ranks do not agree, through the whole command: each ends at once with exit code
// 4 and says who did what, where.
namespace shardsim::test {
namespace {

using nlohmann::json;

struct Outcome {
  json diagnosis;
  std::string text;
};

// `before_each_run`: for faults that count; the command runs twice, for people and for machines.
Outcome stopped(
    const std::string& scenario, const RunHooks& hooks,
    const std::function<void()>& before_each_run = [] {}) {
  RunArguments arguments;
  arguments.file = "scenarios/" + scenario + ".json";
  Outcome outcome;
  before_each_run();
  const Printed text = shardsim_with(arguments, hooks);
  CHECK(text.exit_code == 4);
  outcome.text = text.out;
  arguments.json = true;
  before_each_run();
  const Printed printed = shardsim_with(arguments, hooks);
  CHECK(printed.exit_code == 4);
  const json result = json::parse(printed.out);
  REQUIRE(result.contains("diagnosis"));
  outcome.diagnosis = result["diagnosis"];
  return outcome;
}

constexpr int kRanks = 8;  // In every scenario here.

std::vector<int> all_but(const std::vector<int>& culprits) {
  std::vector<int> others;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (std::count(culprits.begin(), culprits.end(), rank) == 0) others.push_back(rank);
  }
  return others;
}

// One set of ranks and its action: operation, dtype, size and label; and where it called.
struct Side {
  std::vector<int> ranks;
  std::string action;
  std::string file;  // Empty: the ranks called nothing.
};

/// Code, group and every side, to the letter, for machines and for people. The first side is the
/// minority: the likely culprit.
void check_sides(const Outcome& outcome, const std::string& code, const std::string& group,
                 const std::vector<Side>& expected) {
  const json& diagnosis = outcome.diagnosis;
  INFO(diagnosis.dump(2) << "\n" << outcome.text);
  CHECK(diagnosis["code"] == code);
  CHECK(diagnosis["group"] == group);
  CHECK(diagnosis["sequence"].get<int>() >= 0);
  CHECK(contains(outcome.text, code));
  CHECK(contains(outcome.text, "group " + group));
  REQUIRE(diagnosis["sides"].size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const json& side = diagnosis["sides"][i];
    CHECK(side["ranks"] == expected[i].ranks);
    CHECK(side["action"] == expected[i].action);
    CHECK(side["file"] == expected[i].file);
    CHECK((side["line"].get<int>() > 0) == !expected[i].file.empty());
    CHECK(contains(outcome.text, expected[i].action));
    if (expected[i].file.empty()) continue;
    CHECK(contains(outcome.text, fmt::format("{}:{}", expected[i].file, side["line"].get<int>())));
  }
}

// "all_reduce sum fp64 x 72 "bucket 0"".
std::string reduction(const char* call, std::int64_t count, const std::string& label) {
  return fmt::format("{} sum fp64 x {} \"{}\"", call, count, label);
}

constexpr const char* kReducer = "strategies/gradient_sync/gradient_reducer.cpp";

// Puts a call off until the next one has been posted, as a strategy does that swaps two.
class PutOff final : public WorkOwner {
 public:
  [[nodiscard]] Work later(std::function<Work()> call) {
    call_ = std::move(call);
    return {*this, this};
  }
  void post() {
    if (call_) work_ = std::exchange(call_, nullptr)();
  }

 private:
  void wait(void*) override {
    post();
    work_.wait();
  }
  void abandon(void*) noexcept override { work_ = Work(); }

  std::function<Work()> call_;
  Work work_;
};

}  // namespace

TEST_CASE("one rank that skips a collective is named") {
  std::map<std::string, std::int64_t> sizes;  // By label.
  Faults faults;
  faults.all_reduce = [&](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    sizes[options.label] = buffer.numel();
    if (caller.world_rank == 3 && options.label == std::string("bucket 1")) return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  const Outcome outcome = stopped("verify-gpt-ddp", {.wrap_world = plant(faults)});
  check_sides(outcome, "COLL_LABEL", "dp",
              {{{3}, reduction("all_reduce", sizes["bucket 2"], "bucket 2"), kReducer},
               {all_but({3}), reduction("all_reduce", sizes["bucket 1"], "bucket 1"), kReducer}});
  CHECK(contains(outcome.diagnosis["hint"], "skipped or repeated"));
}

TEST_CASE("one rank that skips the very last collective is named as having finished") {
  // A step of ZeRO-2 ends with gathers. First it is found out how many they are.
  std::map<int, int> calls;  // By world rank.
  int last = 0;              // Number of the last one; 0: not known yet.
  std::string last_action;
  Faults faults;
  faults.all_gather = [&](const Caller& caller, const Tensor& output, const Tensor& input,
                          const CallOptions& options, CallSite site) {
    const int number = ++calls[caller.world_rank];
    if (last == 0) last_action = fmt::format("fp64 x {} \"{}\"", output.numel(), options.label);
    if (caller.world_rank == 5 && number == last) return Work();
    return caller.to.all_gather(output, input, options, site);
  };
  const RunHooks hooks{.wrap_world = plant(faults)};
  RunArguments arguments;
  arguments.file = "scenarios/verify-gpt-zero2.json";
  REQUIRE(shardsim_with(arguments, hooks).exit_code == 0);
  last = calls[5];
  const Outcome outcome = stopped("verify-gpt-zero2", hooks, [&] { calls.clear(); });
  CHECK(calls[5] == last);  // It was the last step's: nothing came after it.
  check_sides(outcome, "COLL_MISSING", "dp_shard",
              {{{5}, "missing: has finished", ""},
               {all_but({5}), "called all_gather " + last_action + " and wait",
                "strategies/gradient_sync/bucketed_sync.cpp"}});
}

TEST_CASE("two ranks that swap two collectives are named, with both orders") {
  std::map<int, PutOff> put_off;              // By world rank.
  std::map<std::string, std::int64_t> sizes;  // By label.
  Faults faults;
  faults.all_reduce = [&](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool swaps = caller.world_rank == 1 || caller.world_rank == 2;
    const std::string label = options.label;
    sizes[label] = buffer.numel();
    if (swaps && label == "bucket 0") {
      return put_off[caller.world_rank].later(
          [=, &to = caller.to] { return to.all_reduce(buffer, op, options, site); });
    }
    Work work = caller.to.all_reduce(buffer, op, options, site);
    if (swaps && label == "bucket 1") put_off[caller.world_rank].post();
    return work;
  };
  const Outcome outcome = stopped("verify-llama-ddp", {.wrap_world = plant(faults)});
  check_sides(
      outcome, "COLL_LABEL", "dp",
      {{{1, 2}, reduction("all_reduce", sizes["bucket 1"], "bucket 1"), kReducer},
       {all_but({1, 2}), reduction("all_reduce", sizes["bucket 0"], "bucket 0"), kReducer}});
}

TEST_CASE("sizes that differ are given for both sides") {
  std::int64_t size = 0;
  Faults faults;
  faults.all_reduce = [&](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool is_bucket = options.label == std::string("bucket 1");
    if (is_bucket) size = buffer.numel();
    return caller.to.all_reduce(
        is_bucket && caller.world_rank == 6 ? buffer.view(0, {buffer.numel() - 1}) : buffer, op,
        options, site);
  };
  const Outcome outcome = stopped("verify-mlp-ddp", {.wrap_world = plant(faults)});
  check_sides(outcome, "COLL_COUNT", "dp",
              {{{6}, reduction("all_reduce", size - 1, "bucket 1"), kReducer},
               {all_but({6}), reduction("all_reduce", size, "bucket 1"), kReducer}});
}

TEST_CASE("a shard group whose members differ in size of a reduce_scatter stops, too") {
  std::int64_t size = 0;
  std::string label;
  Faults faults;
  faults.reduce_scatter = [&](const Caller& caller, const Tensor& output, const Tensor& input,
                              ReduceOp op, const CallOptions& options, CallSite site) {
    if (caller.world_rank != 2) {
      return caller.to.reduce_scatter(output, input, op, options, site);
    }
    if (label.empty()) {  // The first one is what is reported.
      size = input.numel();
      label = options.label;
    }
    const std::int64_t part = output.numel() - 1;
    return caller.to.reduce_scatter(output.view(0, {part}),
                                    input.view(0, {part * caller.to.size()}), op, options, site);
  };
  constexpr const char* kPlace = "strategies/gradient_sync/gradient_reducer.cpp";
  for (const char* scenario : {"verify-gpt-zero1", "verify-gpt-zero2", "verify-llama-zero3"}) {
    const Outcome outcome =
        stopped(scenario, {.wrap_world = plant(faults)}, [&] { label.clear(); });
    INFO(scenario);
    check_sides(outcome, "COLL_COUNT", "dp_shard",
                {{{2}, reduction("reduce_scatter", size - kRanks, label), kPlace},
                 {all_but({2}), reduction("reduce_scatter", size, label), kPlace}});
  }
}

TEST_CASE("a cycle of sends is a deadlock, told as a chain") {
  RunHooks hooks;
  hooks.wrap_world = [](Communicator& world) -> std::unique_ptr<Communicator> {
    const Tensor block = Tensor::allocate(nullptr, MemoryCategory::comm, {100}, DType::fp32, false);
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    world.send(block, next, {.label = "block"}).wait();
    world.recv(block, previous, {.label = "block"}).wait();
    return nullptr;
  };
  const Outcome outcome = stopped("verify-mlp-ddp", hooks);
  std::vector<Side> sides;
  REQUIRE(outcome.diagnosis["cycle"].size() == kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string action = fmt::format("send fp32 x 100 to {} \"block\"", (rank + 1) % kRanks);
    CHECK(contains(outcome.diagnosis["cycle"][static_cast<std::size_t>(rank)],
                   fmt::format("rank {} waits in {} of group world", rank, action)));
    sides.push_back({{rank}, action, "tests/app/communication_test.cpp"});
  }
  check_sides(outcome, "DEADLOCK", "world", sides);
}

}  // namespace shardsim::test
