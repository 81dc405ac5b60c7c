#include "sim/run/device_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/units.hpp"

namespace shardsim::test {
namespace {

Result run_with(const std::string& file, const std::vector<std::string>& overrides) {
  return run_scenario(load_scenario(file, overrides), {}).result;
}

std::int64_t bytes(const Result& result, const std::string& name) {
  const MetricValue* value = result.find("memory." + name);
  INFO(name);
  REQUIRE(value != nullptr);
  return std::get<std::int64_t>(*value);
}

}  // namespace

TEST_CASE("payload is within blocks, blocks are within segments, and segments within the device") {
  const Result result = run_with(kPlan, {});
  const std::int64_t allocated = bytes(result, "allocated_peak_bytes.max");
  const std::int64_t reserved = bytes(result, "reserved_peak_bytes.max");
  CHECK(bytes(result, "peak_bytes.max") <= allocated);
  CHECK(allocated % 512 == 0);
  CHECK(allocated <= reserved);
  CHECK(reserved % (2 * kMiB) == 0);
  // Two communicators, of all ranks that see different samples and of those that share shards; 16
  // channels with 12 MiB.
  CHECK(bytes(result, "device_bytes.max") == reserved + 400'000'000 + 2 * 16 * 12 * kMiB);
  CHECK(bytes(result, "allocator_retries.max") == 0);
  CHECK(result.warnings.empty());
}

TEST_CASE("before CUDA loaded kernels lazily its context was larger") {
  const auto outside = [](const char* software) {
    const Result result = run_with(kPlan, {std::string("system.software=") + software});
    return bytes(result, "device_bytes.max") - bytes(result, "reserved_peak_bytes.max");
  };
  CHECK(outside("megatron-lm-2021") - outside("megatron-core-2023") == 1573 * kMiB - 400'000'000);
}

TEST_CASE("what the allocator holds does not grow from step to step") {
  std::vector<std::int64_t> reserved;
  for (const char* steps : {"2", "3", "5"}) {
    const Result result = run_with(kPlan, {std::string("execution.steps=") + steps});
    reserved.push_back(bytes(result, "reserved_peak_bytes.max"));
  }
  CHECK(reserved[1] == reserved[0]);
  CHECK(reserved[2] == reserved[0]);
}

TEST_CASE("the allocator sees the same with data and without") {
  for (const char* file : {"scenarios/verify-gpt-hsdp-tp2-pp2.json",
                           "scenarios/verify-llama-tp2-pp2-recompute.json"}) {
    INFO(file);
    const Result real = run_with(file, {});
    const Result meta = run_with(file, {"execution.tensors=meta"});
    for (const char* name : {"allocated_peak_bytes.max", "reserved_peak_bytes.max",
                             "device_bytes.max", "allocator_retries.max"}) {
      CHECK(bytes(real, name) == bytes(meta, name));
    }
    CHECK(*real.find("memory.peak_allocation") == *meta.find("memory.peak_allocation"));
    CHECK(*real.find("trace_hash") == *meta.find("trace_hash"));
  }
}

TEST_CASE("the allocation that made the peak is named") {
  const Result result = run_with(kPlan, {});
  const auto& text = std::get<std::string>(*result.find("memory.peak_allocation"));
  INFO(text);
  CHECK(contains(text, " bytes of "));
  CHECK(contains(text, " on rank 0, "));
  CHECK(contains(text, " s into the run"));
}

namespace {

std::string device_of(std::int64_t bytes) {
  return "system.device.memory_gib=" + std::to_string(static_cast<double>(bytes) / (1024.0 * kMiB));
}

}  // namespace

TEST_CASE("a plan fits if the device holds all of it: tensors alone are not enough") {
  const Result whole = run_with(kPlan, {});
  // Half a GiB more than tensors: less than the context and buffers alone.
  const std::int64_t payload = bytes(whole, "peak_bytes.max");
  const Result tight = run_with(kPlan, {device_of(payload + 512 * kMiB)});
  CHECK(tight.exit_code == 3);
  CHECK(tight.warnings.empty());
  const auto check = std::find_if(tight.checks.begin(), tight.checks.end(),
                                  [](const Check& one) { return one.name == "memory"; });
  REQUIRE(check != tight.checks.end());
  CHECK(!check->passed);
  CHECK(contains(check->detail, "in the allocator, "));
  CHECK(contains(check->detail, " of CUDA context and NCCL's buffers; shard more"));
  CHECK(run_with(kPlan, {device_of(payload - kMiB)}).exit_code == 3);
}

TEST_CASE("a plan that fits and leaves less than the margin gets a warning") {
  const std::int64_t needed = bytes(run_with(kPlan, {}), "device_bytes.max");
  const auto warnings = [&](std::int64_t device, std::vector<std::string> more) {
    more.push_back(device_of(device));
    const Result result = run_with(kPlan, more);
    CHECK(result.exit_code == 0);
    return result.warnings;
  };
  // 4 % of the device left, then 6 %.
  const std::int64_t little = needed / 96 * 100;
  const std::int64_t enough = needed / 94 * 100;
  const std::vector<std::string> warned = warnings(little, {});
  REQUIRE(warned.size() == 1);
  CHECK(contains(warned[0], "rank 0 may run out of device memory: it needs "));
  CHECK(contains(warned[0], "execution.memory_margin asks for 5 % to be left"));
  CHECK(warnings(little, {"execution.memory_margin=0.03"}).empty());
  CHECK(warnings(enough, {}).empty());
  CHECK(warnings(enough, {"execution.memory_margin=0.07"}).size() == 1);
  CHECK(warnings(needed + kMiB, {"execution.memory_margin=0"}).empty());
}

TEST_CASE("a run with real tensors is judged by its tensors") {
  const std::string file = "scenarios/verify-llama-tp2-pp2-dp2-sp.json";
  const Result run = run_with(file, {});
  CHECK(run.exit_code == 0);
  CHECK(run.warnings.empty());
  // Its 1 GiB device could not hold a process's other memory beside the tensors.
  CHECK(bytes(run, "device_bytes.max") > std::int64_t{1} << 30);
  CHECK(run_with(file, {"execution.tensors=meta"}).exit_code == 3);
  CHECK(run_with(file, {device_of(bytes(run, "peak_bytes.max") / 2)}).exit_code == 3);
}

}  // namespace shardsim::test
