#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/app/trace_readers.hpp"

// The trace that the command writes of a real run. Both formats must say the same, and what the
// result of that run says.
namespace shardsim::test {
namespace {

using nlohmann::json;

constexpr const char* kScenario = "scenarios/verify-gpt-hsdp.json";
constexpr int kTracedRanks = 8;
constexpr int kSteps = 5;

// The bytes of the trace that a run writes, and the metrics of that run.
std::pair<std::string, json> traced(const std::string& name) {
  const TemporaryFolder folder;
  const Printed printed =
      shardsim({kScenario, "--set", "output.trace=" + name, "--out", folder.path(), "--json"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  return {content_of(folder / name), json::parse(printed.out)["metrics"]};
}

void check_processes(const Processes& processes, const json& metrics) {
  REQUIRE(processes.size() == kTracedRanks);
  std::int64_t sent = 0;
  std::int64_t peak = 0;
  for (const auto& [pid, process] : processes) {
    INFO("process " << pid);
    const std::string rank = std::to_string(pid - 1);
    CHECK(process.name == "rank " + rank + " (node " + std::to_string((pid - 1) / 4) + ", gpu " +
                              std::to_string((pid - 1) % 4) + ")");
    std::vector<std::string> streams;
    for (const auto& [stream, slices] : process.slices) {
      streams.push_back(stream);
      CHECK(slices > 0);
    }
    CHECK(streams ==
          std::vector<std::string>{"compute", "dp", "dp_replicate", "dp_shard", "world"});
    std::vector<std::string> counters;
    for (const auto& [counter, points] : process.counters) {
      counters.push_back(counter);
      CHECK(points > 0);
    }
    CHECK(counters == std::vector<std::string>{"memory activations", "memory comm", "memory grads",
                                               "memory optimizer", "memory params"});
    CHECK(process.all_ended());
    sent += process.bytes_sent;
    peak = std::max(peak, process.peak_bytes);
  }
  // Metrics of traffic are those of one step; all steps are alike, and the trace has them all.
  const std::int64_t per_step = metrics["comm.bytes_sent.total"].get<std::int64_t>() +
                                metrics["comm.bytes_sent.scalars"].get<std::int64_t>();
  CHECK(sent == kSteps * per_step);
  CHECK(peak == metrics["memory.peak_bytes.max"].get<std::int64_t>());
}

}  // namespace

TEST_CASE("foreign readers see ranks, streams and memory in the trace of a real run") {
  const auto [perfetto, metrics] = traced("step.pftrace");
  const Processes seen = read_perfetto(perfetto);
  check_processes(seen, metrics);
  CHECK(read_chrome(traced("step.json").first) == seen);
}

}  // namespace shardsim::test
