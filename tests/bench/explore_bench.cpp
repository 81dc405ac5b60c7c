#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "sim/harness/check.hpp"
#include "sim/harness/checker.hpp"
#include "tests/bench/resident_bytes.hpp"

// Schedules per second: 8 ranks that make 50 calls each, with buffers watched. Aim: 3,000 on a
// core.
//
// The last explores a program to its end and looks at the memory: it must not grow with schedules.
namespace shardsim {
namespace {

constexpr int kRanks = 8;
constexpr int kElements = 16;

// Ten times five calls of each rank: a reduction, a message round a ring, a report to rank 0 that
// takes them as they come, and a gather; rank 0 makes more, to receive.
void fifty_calls(RankContext& context) {
  Communicator& world = context.world();
  const int next = (context.rank() + 1) % context.size();
  const int previous = (context.rank() + context.size() - 1) % context.size();
  const Tensor sums = context.tensor(kElements);
  const Tensor out = context.tensor(kElements);
  const Tensor in = context.tensor(kElements);
  const Tensor all = context.tensor(std::int64_t{kElements} * context.size());
  for (int round = 0; round < 10; ++round) {
    world.all_reduce(sums, ReduceOp::sum).wait();
    const std::vector<P2pOp> both = {{P2pOp::Kind::send, out, next},
                                     {P2pOp::Kind::recv, in, previous}};
    world.batch(both).wait();
    if (context.rank() == 0) {
      for (int peer = 1; peer < context.size(); ++peer) {
        context.messages().recv(in, kAnySource, round).wait();
      }
    } else {
      context.messages().send(out, 0, round).wait();
    }
    world.all_gather(all, out).wait();
    world.barrier().wait();
  }
}

void schedules(benchmark::State& state, bool watch) {
  ProgramSetting setting{.ranks = kRanks, .watch = watch};
  std::uint64_t seed = 1;
  std::int64_t choices = 0;
  for (auto _ : state) {
    seed += 2;
    PriorityChooser chooser(kRanks, 2, choices, seed);
    const ProgramRun run = run_program(
        fifty_calls, setting, {.sends = static_cast<SendMode>(seed % 3), .seed = seed}, chooser);
    if (run.failure) state.SkipWithError(run.failure->summary.c_str());
    choices = static_cast<std::int64_t>(chooser.decisions().size());
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK_CAPTURE(schedules, watched, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(schedules, bare, false)->Unit(benchmark::kMicrosecond);

// As much again as a run with few schedules needs would be a sign of growth.
void memory(benchmark::State& state) {
  constexpr int kFew = 200;
  constexpr std::int64_t kMostGrowth = std::int64_t{1} << 20;
  const auto explore = [](std::int64_t schedules) {
    const CheckReport report = check(
        fifty_calls, {.ranks = {kRanks}, .explore = {.schedules = static_cast<int>(schedules)}});
    return report.passed() ? report.schedules : 0;
  };
  for (auto _ : state) {
    static_cast<void>(explore(kFew));
    const std::int64_t before = resident_bytes();
    const std::int64_t made = explore(state.range(0));
    const std::int64_t grown = resident_bytes() - before;
    state.counters["schedules"] = static_cast<double>(made);
    state.counters["KiB_more"] = static_cast<double>(grown) / 1024;
    if (made < state.range(0)) state.SkipWithError("not all schedules were run");
    if (grown > kMostGrowth) state.SkipWithError("memory grows with schedules");
  }
}
BENCHMARK(memory)->Arg(2'000)->Arg(1'000'000)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
