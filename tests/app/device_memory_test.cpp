#include "sim/app/device_memory.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/app/run.hpp"

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

TEST_CASE("the first rank of every stage is replayed") {
  MeshShape mesh;
  mesh.dp_shard = 3;
  mesh.tp = 2;
  CHECK(replayed_ranks_of(mesh) == std::vector<int>{0});
  mesh.pp = 4;
  CHECK(replayed_ranks_of(mesh) == std::vector<int>{0, 6, 12, 18});
}

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

TEST_CASE("a device too small for the allocator, not for the tensors, is warned of") {
  const Result whole = run_with(kPlan, {});
  const auto gib_for = [](std::int64_t wanted) {
    return "system.device.memory_gib=" +
           std::to_string(static_cast<double>(wanted) / (1024.0 * kMiB));
  };
  // Half a GiB more than tensors: less than the context and buffers alone.
  const std::int64_t payload = bytes(whole, "peak_bytes.max");
  const Result tight = run_with(kPlan, {gib_for(payload + 512 * kMiB)});
  CHECK(tight.exit_code == 0);
  REQUIRE(tight.warnings.size() == 1);
  CHECK(contains(tight.warnings[0], "may run out of device memory"));
  // Enough for all: nothing to say. Less than tensors: the verdict says it.
  CHECK(run_with(kPlan, {gib_for(bytes(whole, "device_bytes.max") + kMiB)}).warnings.empty());
  const Result none = run_with(kPlan, {gib_for(payload - kMiB)});
  CHECK(none.exit_code == 3);
  CHECK(none.warnings.empty());
}

}  // namespace shardsim::test
