#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"

// parallelism.offload_*: what a plan says of state in host memory.
namespace shardsim::test {
namespace {

Result quickstart(const std::vector<std::string>& overrides) {
  return run_scenario(load_scenario("scenarios/quickstart.json", overrides), {}).result;
}

double metric(const Result& result, const char* name) {
  const auto number = result.number(name);
  INFO(name);
  REQUIRE(number);
  return *number;
}

constexpr double kShard = 8030261248.0 / 64;     // Llama 3 8B on 64 ranks; no unit needs padding.
constexpr double kState = kShard * (4 + 4 + 4);  // fp32 master, two moments.
// Embedding, 32 blocks, head.
constexpr int kUnits = 34;

}  // namespace

TEST_CASE("an offloaded optimizer lies in host memory, and crosses the link twice a step") {
  const Result on_device = quickstart({});
  const Result offloaded = quickstart({"parallelism.offload_optimizer=true"});
  CHECK_FALSE(on_device.number("memory.host_bytes.max"));
  CHECK(metric(offloaded, "memory.host_bytes.max") == kState);
  CHECK(metric(on_device, "memory.optimizer_bytes.max") == kState);
  CHECK(metric(offloaded, "memory.optimizer_bytes.max") < kState / 10);
  CHECK(metric(offloaded, "memory.peak_bytes.max") ==
        metric(on_device, "memory.peak_bytes.max") - kState);
  // Both ways, 64 GB/s each, and a launch of 3 us for each of three tensors of a unit.
  constexpr int kTransfers = 2 * 3 * kUnits;
  const double expected = 2 * kState / 64e9 + kTransfers * 3e-6;
  const double more = metric(offloaded, "time.compute_s") - metric(on_device, "time.compute_s");
  CHECK(std::abs(more - expected) <= kTransfers * 0.5e-12 + 1e-15);  // Each rounds to a picosecond.
  CHECK(metric(offloaded, "comm.bytes_sent.total") == metric(on_device, "comm.bytes_sent.total"));
}

TEST_CASE("with gradients and parameters offloaded, too, a rank's shards lie in host memory") {
  const Result all =
      quickstart({"parallelism.offload_optimizer=true", "parallelism.offload_gradients=true",
                  "parallelism.offload_parameters=true"});
  constexpr double kBf16 = 2;
  CHECK(metric(all, "memory.host_bytes.max") == kState + 2 * kShard * kBf16);
  // Only units on their way are left on the device.
  const Result none = quickstart({});
  CHECK(metric(all, "memory.params_bytes.max") ==
        metric(none, "memory.params_bytes.max") - kShard * kBf16);
}

TEST_CASE("a plan that offloads says what it assumes, and shows what lies on the host") {
  const std::vector<std::string> plan = {"scenarios/quickstart.json"};
  const std::vector<std::string> offloads = {"scenarios/quickstart.json", "--set",
                                             "parallelism.offload_optimizer=true"};
  CHECK_FALSE(contains(shardsim(plan).out, "on the host"));
  CHECK(contains(shardsim(offloads).out, "on the host 1.40 GiB a rank"));
  const auto with_json = [](std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    return shardsim(arguments).out;
  };
  CHECK_FALSE(contains(with_json(plan), "PCIe Gen5"));
  CHECK(contains(with_json(offloads), "PCIe Gen5"));
  CHECK(contains(with_json(offloads), "Offloaded tensors visit the device"));
}

}  // namespace shardsim::test
