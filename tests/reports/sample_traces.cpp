#include "tests/reports/sample_traces.hpp"

namespace shardsim::samples {

namespace {

TraceSlice compute(const char* name, std::int64_t begin_ps, std::int64_t end_ps) {
  return {name, Time::from_picoseconds(begin_ps), Time::from_picoseconds(end_ps), 0, "", -1};
}

TraceSlice all_reduce(const char* label) {
  return {"all_reduce",
          Time::from_picoseconds(1'500'900),
          Time::from_picoseconds(2'750'499),
          4096,
          label,
          7};
}

MemoryPoint memory(std::int64_t time_ps, MemoryCategory category, std::int64_t bytes) {
  return {Time::from_picoseconds(time_ps), category, bytes};
}

}  // namespace

std::vector<RankTrace> two_ranks() {
  RankTrace first{0, "rank 0 (node 0, gpu 0)", {}, {}};
  first.tracks = {{"compute",
                   {compute("matmul", 0, 1'500'400), compute("relu", 1'500'400, 1'500'900),
                    compute("add", 1'500'900, 1'501'100), compute("matmul", 2'000'000, 3'000'000)}},
                  {"dp_shard", {all_reduce("bucket \"0\"")}}};
  first.memory = {memory(0, MemoryCategory::params, 1024),
                  memory(1'000'000, MemoryCategory::activations, 2048),
                  memory(2'500'000, MemoryCategory::activations, 0)};
  RankTrace second{5, "rank 5 \x1b[31m", {}, {}};
  second.tracks = {{"compute", {compute("matmul", 0, 1'000'000)}}, {"dp_shard", {all_reduce("")}}};
  second.memory = {memory(0, MemoryCategory::params, std::int64_t{1} << 40)};
  return {first, second};
}

}  // namespace shardsim::samples
