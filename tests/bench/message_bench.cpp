#include <cstdint>
#include <memory>

#include <benchmark/benchmark.h>

#include "backends/fiber/fiber_world.hpp"
#include "backends/tagged_messages.hpp"

#include "tests/bench/bench_world.hpp"

// The cost of tagged messages between ranks: a ring all-reduce of 1 MiB written out as messages,
// shapes only, each rank with a receive and a send under way.
//
// Aims: 1,024 ranks in 0.4 s and 4,096 in 11 s where receives name their sender; where they name
// none, 1,024 in 1 s, and a message costs the same at 64, 256 and 1,024 ranks.
namespace shardsim {
namespace {

constexpr std::int64_t kBytes = std::int64_t{1} << 20;

void run_ring(FiberWorld& world, int ranks, bool names_sender) {
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const int rank = everyone.rank();
    const int previous = (rank + ranks - 1) % ranks;
    const Tensor out = runtime.allocate(MemoryCategory::comm, {kBytes / ranks}, DType::int8);
    const Tensor in = runtime.allocate(MemoryCategory::comm, {kBytes / ranks}, DType::int8);
    const std::unique_ptr<TaggedMessages> messages = everyone.tagged_messages();
    for (int step = 0; step < 2 * (ranks - 1); ++step) {
      Work receive = messages->recv(in, names_sender ? previous : kAnySource, 0);
      Work send = messages->send(out, (rank + 1) % ranks, 0);
      receive.wait();
      send.wait();
    }
  });
}

void ring(benchmark::State& state, bool names_sender) {
  const int ranks = static_cast<int>(state.range(0));
  double seconds = 0.0;
  for (auto _ : state) {
    FiberWorld world({.cluster = cluster_of(ranks, {.bytes_per_s = 450e9, .latency_s = 2e-6},
                                            {.bytes_per_s = 50e9, .latency_s = 5e-6}),
                      .has_data = false});
    const double begin = processor_seconds();
    run_ring(world, ranks, names_sender);
    const double elapsed = processor_seconds() - begin;
    state.SetIterationTime(elapsed);
    seconds += elapsed;
  }
  const double messages = 2.0 * ranks * (ranks - 1) * static_cast<double>(state.iterations());
  state.counters["ns_per_message"] = 1e9 * seconds / messages;
}

void ring_from_previous(benchmark::State& state) { ring(state, true); }
void ring_from_anyone(benchmark::State& state) { ring(state, false); }

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(64)->UseManualTime()->Unit(benchmark::kMillisecond);
#ifndef SHARDSIM_SANITIZED  // There the larger ones take minutes and show nothing more.
  bench->Arg(256)->Arg(1024);
#endif
}
void sizes_and_largest(benchmark::internal::Benchmark* bench) {
  sizes(bench);
  bench->Arg(4096);  // 33.5 million messages; the test suite leaves it out.
}
BENCHMARK(ring_from_previous)->Apply(sizes_and_largest);
BENCHMARK(ring_from_anyone)->Apply(sizes);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
