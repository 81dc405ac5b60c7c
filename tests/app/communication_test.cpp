#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
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

Outcome stopped(const std::string& scenario, const RunHooks& hooks) {
  RunArguments arguments;
  arguments.file = "scenarios/" + scenario + ".json";
  Outcome outcome;
  const Printed text = shardsim_with(arguments, hooks);
  CHECK(text.exit_code == 4);
  outcome.text = text.out;
  arguments.json = true;
  const Printed printed = shardsim_with(arguments, hooks);
  CHECK(printed.exit_code == 4);
  const json result = json::parse(printed.out);
  REQUIRE(result.contains("diagnosis"));
  outcome.diagnosis = result["diagnosis"];
  INFO(outcome.text);
  CHECK(contains(outcome.text, outcome.diagnosis["code"].get<std::string>()));
  return outcome;
}

/// The first side is the minority: the likely culprit.
void check_sides(const Outcome& outcome, const json& culprits, const std::string& place) {
  const json& sides = outcome.diagnosis["sides"];
  INFO(outcome.diagnosis.dump(2) << "\n" << outcome.text);
  REQUIRE(sides.size() >= 2);
  CHECK(sides[0]["ranks"] == culprits);
  for (const json& side : sides) {
    CHECK(contains(side["file"].get<std::string>(), place));
    CHECK(side["line"].get<int>() > 0);
    CHECK_FALSE(side["action"].get<std::string>().empty());
  }
  CHECK(contains(outcome.text, place));
}

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
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (caller.world_rank == 3 && options.label == std::string("bucket 1")) return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  };
  const Outcome outcome = stopped("verify-gpt-ddp", {.wrap_world = plant(faults)});
  check_sides(outcome, {3}, "strategies/gradient_sync/full_reducer.cpp");
  CHECK(outcome.diagnosis["code"] == "COLL_LABEL");
  CHECK(contains(outcome.diagnosis["hint"], "skipped or repeated"));
  CHECK(outcome.diagnosis["sides"][1]["ranks"] == json({0, 1, 2, 4, 5, 6, 7}));
  CHECK(contains(outcome.diagnosis["group"], "dp"));
  CHECK(contains(outcome.diagnosis["sides"][0]["action"], "bucket 2"));
  CHECK(contains(outcome.diagnosis["sides"][1]["action"], "bucket 1"));
}

TEST_CASE("one rank that skips the last collective is named as having finished") {
  Faults faults;
  faults.all_gather = [](const Caller& caller, const Tensor& output, const Tensor& input,
                         const CallOptions& options, CallSite site) {
    if (caller.world_rank == 5) return Work();
    return caller.to.all_gather(output, input, options, site);
  };
  const Outcome outcome = stopped("verify-gpt-zero3", {.wrap_world = plant(faults)});
  INFO(outcome.text);
  CHECK(outcome.diagnosis["sides"][0]["ranks"] == json({5}));
}

TEST_CASE("two ranks that swap two collectives are named, with both orders") {
  std::map<int, PutOff> put_off;  // By world rank.
  Faults faults;
  faults.all_reduce = [&](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool swaps = caller.world_rank == 1 || caller.world_rank == 2;
    const std::string label = options.label;
    if (swaps && label == "bucket 0") {
      return put_off[caller.world_rank].later(
          [=, &to = caller.to] { return to.all_reduce(buffer, op, options, site); });
    }
    Work work = caller.to.all_reduce(buffer, op, options, site);
    if (swaps && label == "bucket 1") put_off[caller.world_rank].post();
    return work;
  };
  const Outcome outcome = stopped("verify-llama-ddp", {.wrap_world = plant(faults)});
  check_sides(outcome, {1, 2}, "strategies/gradient_sync/full_reducer.cpp");
  CHECK(contains(outcome.diagnosis["sides"][0]["action"], "bucket 1"));
  CHECK(contains(outcome.diagnosis["sides"][1]["action"], "bucket 0"));
}

TEST_CASE("sizes that differ are given for both sides") {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    const bool shorter = caller.world_rank == 6 && options.label == std::string("bucket 1");
    return caller.to.all_reduce(shorter ? buffer.view(0, {buffer.numel() - 1}) : buffer, op,
                                options, site);
  };
  const Outcome outcome = stopped("verify-mlp-ddp", {.wrap_world = plant(faults)});
  CHECK(outcome.diagnosis["code"] == "COLL_COUNT");
  check_sides(outcome, {6}, "strategies/gradient_sync/full_reducer.cpp");
  const auto count_of = [&](int side) {
    const std::string action = outcome.diagnosis["sides"][side]["action"];
    return std::stoll(action.substr(action.find(" x ") + 3));
  };
  CHECK(count_of(0) + 1 == count_of(1));
}

TEST_CASE("a shard group whose members differ in size of a reduce_scatter stops, too") {
  Faults faults;
  faults.reduce_scatter = [](const Caller& caller, const Tensor& output, const Tensor& input,
                             ReduceOp op, const CallOptions& options, CallSite site) {
    if (caller.world_rank != 2) {
      return caller.to.reduce_scatter(output, input, op, options, site);
    }
    const std::int64_t part = output.numel() - 1;
    return caller.to.reduce_scatter(output.view(0, {part}),
                                    input.view(0, {part * caller.to.size()}), op, options, site);
  };
  for (const char* scenario : {"verify-gpt-zero1", "verify-gpt-zero2", "verify-llama-zero3"}) {
    const Outcome outcome = stopped(scenario, {.wrap_world = plant(faults)});
    INFO(scenario);
    CHECK(outcome.diagnosis["code"] == "COLL_COUNT");
    check_sides(outcome, {2}, "strategies/gradient_sync/");
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
  INFO(outcome.text);
  CHECK(outcome.diagnosis["cycle"].size() == 8);
  CHECK(contains(outcome.diagnosis.dump(), "tests/app/communication_test.cpp"));
  CHECK(contains(outcome.diagnosis.dump(), "send"));
  CHECK(contains(outcome.text, "100"));
}

}  // namespace shardsim::test
