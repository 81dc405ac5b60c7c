#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"

// The trace of a run says of steps, communication and bytes what its result says. Traces round to
// nanoseconds.
namespace shardsim::test {

namespace {

using nlohmann::json;

struct Slice {
  double begin_us = 0;
  double end_us = 0;
};
struct TracedRun {
  std::map<int, std::map<std::string, std::vector<Slice>>> streams;  // By process.
  std::int64_t bytes = 0;
  json metrics;
};

constexpr double kNanosecondUs = 1e-3;
constexpr double kMicro = 1e-6;

TracedRun traced(const std::string& scenario) {
  const TemporaryFolder folder;
  const Printed printed = shardsim({scenario, "--set", "output.trace=t.json", "--set",
                                    "execution.steps=1", "--out", folder.path(), "--json"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  TracedRun run;
  run.metrics = json::parse(printed.out)["metrics"];
  std::map<std::pair<int, int>, Slice> open;
  std::map<std::pair<int, int>, std::string> stream;
  const json trace = json::parse(content_of(folder / "t.json"));
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase != "B" && phase != "E") continue;
    const std::pair<int, int> thread = {event["pid"], event["tid"]};
    if (phase == "B") {
      // Groups are made before the step.
      stream[thread] = event["name"] == "split" ? "" : event["cat"].get<std::string>();
      open[thread].begin_us = event["ts"];
      if (event["args"].contains("bytes")) run.bytes += event["args"]["bytes"].get<std::int64_t>();
    } else if (stream[thread].empty()) {
      continue;
    } else {
      open[thread].end_us = event["ts"];
      run.streams[thread.first][stream[thread]].push_back(open[thread]);
    }
  }
  return run;
}

double length(const std::vector<Slice>& slices) {
  double sum = 0;
  for (const Slice& slice : slices) sum += slice.end_us - slice.begin_us;
  return sum;
}

double overlap(const std::vector<Slice>& a, const std::vector<Slice>& b) {
  double sum = 0;
  for (const Slice& one : a) {
    for (const Slice& other : b) {
      sum += std::max(0.0,
                      std::min(one.end_us, other.end_us) - std::max(one.begin_us, other.begin_us));
    }
  }
  return sum;
}

// The process that ends last, the lowest of equals.
int last_process(const TracedRun& run) {
  int last = -1;
  double end = -1;
  for (const auto& [process, streams] : run.streams) {
    for (const auto& [name, slices] : streams) {
      if (slices.back().end_us <= end) continue;
      end = slices.back().end_us;
      last = process;
    }
  }
  return last;
}

double seconds(const TracedRun& run, const char* metric) { return run.metrics[metric]; }

}  // namespace

TEST_CASE("slices of all ranks send what the result counts: payload, padding and scalars") {
  for (const char* scenario :
       {"scenarios/verify-gpt-tp4.json", "scenarios/verify-gpt-tp2-pp2-dp2-zero1.json",
        "scenarios/verify-gpt-zero3.json", "scenarios/verify-gpt-cp4-ring.json"}) {
    INFO(scenario);
    const TracedRun run = traced(scenario);
    const auto sent = [&](const char* kind) {
      return run.metrics[std::string("comm.bytes_sent.") + kind].get<std::int64_t>();
    };
    CHECK(run.bytes == sent("total") + sent("padding") + sent("scalars"));
  }
}

TEST_CASE("slices of the rank that ends last compute as long as the result says") {
  for (const char* scenario :
       {"scenarios/verify-gpt-tp4.json", "scenarios/verify-gpt-tp2-pp2-dp2-zero1.json",
        "scenarios/verify-gpt-zero3.json"}) {
    INFO(scenario);
    TracedRun run = traced(scenario);
    const std::vector<Slice>& computed = run.streams[last_process(run)]["compute"];
    const double rounding = static_cast<double>(computed.size()) * kNanosecondUs * kMicro;
    CHECK(std::fabs(length(computed) * kMicro - seconds(run, "time.compute_s")) <= rounding);
  }
}

TEST_CASE("where every communication is waited for at once, slices tell the step and its parts") {
  TracedRun run = traced("scenarios/verify-gpt-tp4.json");
  auto& streams = run.streams[last_process(run)];
  const std::vector<Slice>& computed = streams["compute"];
  const std::vector<Slice>& sums = streams["tp"];
  REQUIRE(!sums.empty());
  const double rounding =
      static_cast<double>(computed.size() + sums.size()) * kNanosecondUs * kMicro;
  const double exposed = (length(sums) - overlap(sums, computed)) * kMicro;
  CHECK(std::fabs(exposed - seconds(run, "time.exposed_comm_s")) <= rounding);
  const double begin = std::min(computed.front().begin_us, sums.front().begin_us);
  const double end = std::max(computed.back().end_us, sums.back().end_us);
  CHECK(std::fabs((end - begin) * kMicro - seconds(run, "step_time_s")) <= rounding);
}

}  // namespace shardsim::test
