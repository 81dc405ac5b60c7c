#include <benchmark/benchmark.h>

#include "sim/harness/check.hpp"

// Seconds of a check whose buffers are watched, by its number of ranks. Aims: 8,192 ranks with 10
// calls each in 1.2 s; an early leaver among 16,384 in 2 s. growth_test.py counts instructions:
// they grow as the ranks do, while seconds also grow where a world leaves the caches.
namespace shardsim {
namespace {

void ten_calls(RankContext& context) {
  const Tensor sums = context.tensor(16);
  for (int call = 0; call < 10; ++call) context.world().all_reduce(sums, ReduceOp::sum).wait();
}

void early_leaver(RankContext& context) {
  const Tensor sums = context.tensor(16);
  if (context.rank() == 3) return;
  context.world().all_reduce(sums, ReduceOp::sum).wait();
}

void checked(benchmark::State& state, void (*program)(RankContext&), bool passes) {
  const int ranks = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const CheckReport report = check(program, {.ranks = {ranks}});
    if (report.passed() != passes) state.SkipWithError(report.to_text().c_str());
  }
}

BENCHMARK_CAPTURE(checked, ten_calls, ten_calls, true)
    ->Arg(1024)
    ->Arg(2048)
    ->Arg(8192)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checked, early_leaver, early_leaver, false)
    ->Arg(1024)
    ->Arg(2048)
    ->Arg(16384)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
