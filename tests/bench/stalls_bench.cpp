#include <benchmark/benchmark.h>

#include "sim/harness/check.hpp"

// Seconds from the start of a check of 1,024 ranks to its report, with all runs that it takes to
// name what is wrong. Aim: under 2.
namespace shardsim {
namespace {

constexpr int kMany = 1024;
constexpr int kSide = 32;

void ring(RankContext& context) {
  const Tensor out = context.tensor(4);
  const Tensor in = context.tensor(4);
  const int size = context.size();
  context.world().send(out, (context.rank() + 1) % size).wait();
  context.world().recv(in, (context.rank() + size - 1) % size).wait();
}

void tagged_ring(RankContext& context) {
  const Tensor out = context.tensor(4);
  const Tensor in = context.tensor(4);
  const int size = context.size();
  context.messages().recv(in, (context.rank() + size - 1) % size, 0).wait();
  context.messages().send(out, (context.rank() + 1) % size, 0).wait();
}

void mesh(RankContext& context) {
  const int rank = context.rank();
  const auto row = context.world().split(rank / kSide, rank, "row");
  const auto column = context.world().split(rank % kSide, rank, "column");
  const bool row_first = (rank / kSide + rank % kSide) % 2 == 0;
  const Tensor sums = context.tensor(4);
  (row_first ? *row : *column).all_reduce(sums, ReduceOp::sum).wait();
  (row_first ? *column : *row).all_reduce(sums, ReduceOp::sum).wait();
}

void missing(RankContext& context) {
  if (context.rank() % 3 == 1) return;
  context.world().all_reduce(context.tensor(4), ReduceOp::sum).wait();
}

// Rank 0 takes what comes, and waits for one message more: which of them it takes is open 1,023
// times over.
void open_gather(RankContext& context) {
  const Tensor buffer = context.tensor(4);
  if (context.rank() != 0) return context.messages().send(buffer, 0, 0).wait();
  for (int i = 0; i < context.size(); ++i) context.messages().recv(buffer, kAnySource, 0).wait();
}

void explain(benchmark::State& state, void (*program)(RankContext&)) {
  for (auto _ : state) {
    const CheckReport report = check(program, {.ranks = {kMany}});
    if (report.passed()) state.SkipWithError("it is not found");
    benchmark::DoNotOptimize(report.to_text());
  }
}

BENCHMARK_CAPTURE(explain, ring, ring)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(explain, tagged_ring, tagged_ring)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(explain, open_gather, open_gather)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(explain, mesh, mesh)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(explain, missing, missing)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
