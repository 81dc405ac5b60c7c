#include <map>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/exchange/exchange_fixture.hpp"

// Traces as tools for PyTorch's profiler find them. hta/common/trace_parser.py of
// HolisticTraceAnalysis finds kernels by "cat", "stream" and "correlation", and ranks by
// "distributedInfo". Tools also look for the fields of record_param_comms.
namespace shardsim::test {

namespace {

using Json = nlohmann::json;

Json kineto_of(const TemporaryFolder& folder, int rank) {
  return Json::parse(content_of(folder / ("small." + std::to_string(rank) + ".pt.trace.json")));
}

// Sorted by time: begin and end of all kernels of a stream.
std::map<int, std::vector<std::pair<double, double>>> streams_of(const Json& trace) {
  std::map<int, std::vector<std::pair<double, double>>> streams;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "kernel") continue;
    const double begin = event["ts"];
    const double duration = event["dur"];
    streams[event["args"]["stream"].get<int>()].emplace_back(begin, begin + duration);
  }
  return streams;
}

}  // namespace

TEST_CASE("A Kineto trace names its rank, its groups and its streams", "[exchange]") {
  const TemporaryFolder folder;
  export_into(folder, "kineto");
  for (int rank = 0; rank < 8; ++rank) {
    const Json trace = kineto_of(folder, rank);
    CHECK(trace["schemaVersion"] == 1);
    CHECK(trace.contains("baseTimeNanoseconds"));
    CHECK(trace["distributedInfo"]["rank"] == rank);
    CHECK(trace["distributedInfo"]["world_size"] == 8);
    for (const Json& group : trace["distributedInfo"]["pg_config"]) {
      CHECK(group["pg_size"] == group["ranks"].size());
    }
    std::set<int> correlations;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["cat"] == "user_annotation") continue;
      CHECK(event["pid"] == rank);
      CHECK(event["tid"] == event["args"]["stream"]);
      CHECK(correlations.insert(event["args"]["correlation"].get<int>()).second);
    }
    // Operations of a stream follow each other; times are whole nanoseconds.
    for (const auto& [stream, spans] : streams_of(trace)) {
      for (std::size_t i = 1; i < spans.size(); ++i) {
        CHECK(spans[i].first >= spans[i - 1].second - 0.002);
      }
    }
  }
}

TEST_CASE("Collectives in a Kineto trace say what NCCL did for whom", "[exchange]") {
  const TemporaryFolder folder;
  export_into(folder, "kineto");
  const Json trace = kineto_of(folder, 0);
  std::map<std::string, std::set<std::string>> kernels;
  for (const Json& event : trace["traceEvents"]) {
    const Json arguments = event.value("args", Json::object());
    if (!arguments.contains("Collective name")) continue;
    const std::string name = arguments["Collective name"];
    kernels[name].insert(event["name"]);
    CHECK(event["name"].get<std::string>().rfind("ncclDevKernel_", 0) == 0);
    const int size = arguments["Group size"];
    CHECK(Json::parse(arguments["Process Group Ranks"].get<std::string>()).size() ==
          static_cast<std::size_t>(size));
    if (name == "_allgather_base") {
      CHECK(arguments["Out msg nelems"] == size * arguments["In msg nelems"].get<int>());
    } else if (name == "_reduce_scatter_base") {
      CHECK(arguments["In msg nelems"] == size * arguments["Out msg nelems"].get<int>());
    }
  }
  CHECK(kernels["_allgather_base"] == std::set<std::string>{"ncclDevKernel_AllGather_RING_LL"});
  CHECK(kernels["_reduce_scatter_base"] ==
        std::set<std::string>{"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"});
  CHECK(kernels["allreduce"].count("ncclDevKernel_AllReduce_Sum_bf16_RING_LL") == 1);
  CHECK(kernels["send"] == std::set<std::string>{"ncclDevKernel_SendRecv"});
  CHECK(kernels.count("coalesced") == 1);  // Ring attention sends and receives at once.
}

}  // namespace shardsim::test
