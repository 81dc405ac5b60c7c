#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/mutants/faulty_communicator.hpp"

// Faults planted between real strategies and the network are found there, at the rank that makes
// them. So the silence of shipped scenarios says something.
namespace shardsim::test {
namespace {

constexpr int kCulprit = 3;

Result watched(const std::string& scenario, Faults faults) {
  return run_scenario(load_scenario("scenarios/" + scenario + ".json"),
                      {.wrap_world = plant(std::move(faults)), .watch = true})
      .result;
}

void check_found(const Result& result, const std::string& code) {
  CHECK(result.exit_code == 4);
  REQUIRE(result.diagnosis);
  INFO(result.diagnosis->to_text());
  CHECK(result.diagnosis->code == code);
  CHECK(result.diagnosis->members == std::vector<int>{kCulprit});
}

}  // namespace

TEST_CASE("P14: a gradient written to while it is reduced") {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    Work work = caller.to.all_reduce(buffer, op, options, site);
    if (caller.world_rank == kCulprit) buffer.set(0, 1.0);
    return work;
  };
  check_found(watched("verify-gpt-ddp", faults), "BUF_WRITE");
}

TEST_CASE("P14: a gradient written to behind the tensor's back") {
  Faults faults;
  faults.reduce_scatter = [](const Caller& caller, const Tensor& output, const Tensor& input,
                             ReduceOp op, const CallOptions& options, CallSite site) {
    Work work = caller.to.reduce_scatter(output, input, op, options, site);
    if (caller.world_rank == kCulprit) *input.wire_data() ^= std::byte{1};
    return work;
  };
  check_found(watched("verify-gpt-zero3", faults), "BUF_WRITE");
}

TEST_CASE("P14: weights read before they are gathered") {
  Faults faults;
  faults.all_gather = [](const Caller& caller, const Tensor& output, const Tensor& input,
                         const CallOptions& options, CallSite site) {
    Work work = caller.to.all_gather(output, input, options, site);
    if (caller.world_rank == kCulprit) static_cast<void>(output.get(output.numel() - 1));
    return work;
  };
  check_found(watched("verify-gpt-zero3", faults), "BUF_READ_EARLY");
}

TEST_CASE("P14: a temporary that is freed while it is reduced") {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (caller.world_rank != kCulprit) return caller.to.all_reduce(buffer, op, options, site);
    const Tensor copy = Tensor::allocate(nullptr, MemoryCategory::activations, buffer.shape(),
                                         buffer.dtype(), /*meta=*/false);
    return caller.to.all_reduce(copy, op, options, site);
  };
  check_found(watched("verify-gpt-ddp", faults), "BUF_FREED");
}

TEST_CASE("two groups used in two orders are a warning, and the run goes on") {
  Faults faults;
  faults.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                         const CallOptions& options, CallSite site) {
    if (caller.to.size() != caller.world.size()) {
      return caller.to.all_reduce(buffer, op, options, site);
    }
    if (caller.world_rank == kCulprit) {
      Work second = caller.world.barrier();
      Work first = caller.to.all_reduce(buffer, op, options, site);
      second.wait();
      return first;
    }
    Work first = caller.to.all_reduce(buffer, op, options, site);
    caller.world.barrier().wait();
    return first;
  };
  const Result result = watched("verify-gpt-ddp", faults);
  CHECK(result.exit_code == 0);
  std::string warnings;
  for (const std::string& warning : result.warnings) warnings += warning + "\n";
  INFO(warnings);
  CHECK(contains(warnings, "NCCL_UNSAFE: ranks "));
}

}  // namespace shardsim::test
