#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "backends/fiber/fiber_world.hpp"
#include "backends/program/recorder.hpp"
#include "backends/replay/replay_world.hpp"

#include "tests/bench/bench_world.hpp"
#include "tests/bench/resident_bytes.hpp"

// The cost of one collective (post and wait) for one rank, with fingerprints, trace hash and
// counters on. Also the memory that the rank keeps resident.
//
// The last two compare a run with its replay, in operations of ranks: calls and compute.
//
// Aim: under 120 ns per rank and operation in a group of 8, under 16 KiB resident per rank. Times
// depend on the machine and are read by people. Memory does not, and the run fails if it is over.
namespace shardsim {
namespace {

constexpr int kLargestWorld = 16384;
#ifdef SHARDSIM_SANITIZED
constexpr double kBytesPerRank = 1e9;  // Redzones and shadow are the sanitizer's.
#else
constexpr double kBytesPerRank = 16 * 1024;
#endif
bool too_large = false;

// Resident bytes of this process, from the kernel.
using RankRounds = std::function<void(Runtime&, Communicator& everyone, Communicator& node)>;

// Runs `rounds` on every rank, with the clock running between a barrier and the last rank's return.
void measure(benchmark::State& state, int operations_per_rank, const RankRounds& rounds) {
  const int ranks = static_cast<int>(state.range(0));
  std::int64_t resident = 0;
  double seconds = 0.0;
  for (auto _ : state) {
    malloc_trim(0);  // Memory that earlier runs have freed would be used again and not show.
    const std::int64_t before = resident_bytes();
    FiberWorld world({.cluster = cluster_of(ranks, {.bytes_per_s = 300e9, .latency_s = 2e-6},
                                            {.bytes_per_s = 25e9, .latency_s = 5e-6}),
                      .has_data = false});
    int started = 0;
    int ended = 0;
    double begin = 0.0;
    double end = 0.0;
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const auto node = everyone.split(everyone.rank() / kNode, everyone.rank(), "node");
      everyone.barrier().wait();
      if (started++ == 0) begin = processor_seconds();
      rounds(runtime, everyone, *node);
      if (++ended == ranks) {
        end = processor_seconds();
        resident = std::max(resident, resident_bytes() - before);
      }
    });
    state.SetIterationTime(end - begin);
    seconds += end - begin;
  }
  const double operations = static_cast<double>(state.iterations()) * operations_per_rank * ranks;
  state.counters["ns_per_rank_op"] = 1e9 * seconds / operations;
  const double per_rank = static_cast<double>(resident) / ranks;
  state.counters["resident_per_rank"] = per_rank;
  // In a small world what the allocator keeps for itself is more than the ranks are.
  if (ranks == kLargestWorld && !(per_rank > 0 && per_rank < kBytesPerRank)) too_large = true;
}

int rounds_for(const benchmark::State& state) {
  return static_cast<int>(std::max<std::int64_t>(2'000'000 / state.range(0), 20));
}

// One group of 8 that nothing else holds back.
void collective_participation(benchmark::State& state) {
  const int rounds = rounds_for(state);
  measure(state, rounds, [&](Runtime& runtime, Communicator&, Communicator& node) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1 << 20}, DType::bf16);
    for (int round = 0; round < rounds; ++round) node.all_reduce(buffer, ReduceOp::sum).wait();
  });
}

// As in a model with tensor and data parallelism: four operations in the node, then one across all
// nodes. No node can run ahead of another, so every rank leaves the caches in between.
void two_axes(benchmark::State& state) {
  const int rounds = rounds_for(state) / 4;
  measure(state, 5 * rounds, [&](Runtime& runtime, Communicator& everyone, Communicator& node) {
    const auto across = everyone.split(everyone.rank() % kNode, everyone.rank(), "across");
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1 << 20}, DType::bf16);
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < 4; ++i) node.all_reduce(buffer, ReduceOp::sum).wait();
      across->all_reduce(buffer, ReduceOp::sum).wait();
    }
  });
}

// All ranks in step: each operation takes every rank, one after the other.
void whole_world(benchmark::State& state) {
  const int rounds = rounds_for(state);
  measure(state, rounds, [&](Runtime& runtime, Communicator& everyone, Communicator&) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1 << 20}, DType::bf16);
    for (int round = 0; round < rounds; ++round) everyone.all_reduce(buffer, ReduceOp::sum).wait();
  });
}

// The memory that a rank keeps resident with three communicators, as in a world of three axes.
void three_communicators(benchmark::State& state) {
  measure(state, 3, [&](Runtime& runtime, Communicator& everyone, Communicator& node) {
    const int rank = everyone.rank();
    const auto pairs = everyone.split(rank % (everyone.size() / 2), rank, "pairs");
    const auto across = everyone.split(rank % kNode, rank, "across");
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1 << 20}, DType::bf16);
    node.all_reduce(buffer, ReduceOp::sum).wait();
    pairs->all_reduce(buffer, ReduceOp::sum).wait();
    across->all_reduce(buffer, ReduceOp::sum).wait();
    everyone.barrier().wait();
  });
}

// A step as in a plan: three operations between collectives in the node, and now and then one
// across the nodes. The same program for all ranks, run or replayed.
constexpr int kStepRounds = 50;
constexpr int kStepOperations = kStepRounds * (4 * (3 + 1) + 1);  // Calls and compute.

void step_of_a_plan(Runtime& runtime, Communicator& everyone) {
  const int nodes = everyone.size() / kNode;
  const RankSpan of_node{.axes = {{{kNode, 1}}}, .size = kNode};
  const RankSpan over_nodes{.axes = {{{nodes, kNode}}}, .size = nodes};
  const auto node = everyone.subgroup(of_node.around(everyone.rank()), "node");
  const auto across = everyone.subgroup(over_nodes.around(everyone.rank()), "across");
  const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1 << 20}, DType::bf16);
  for (int round = 0; round < kStepRounds; ++round) {
    for (int i = 0; i < 4; ++i) {
      for (const std::int64_t bytes : {1000, 2000, 3000}) {
        runtime.compute({"work", ComputeKind::memory_bound, DType::bf16, 0, bytes}, [] {});
      }
      node->all_reduce(buffer, ReduceOp::sum).wait();
    }
    across->all_reduce(buffer, ReduceOp::sum).wait();
  }
}

// `seconds()`: makes a world of the cluster, and returns how long its ranks took to their end.
void measure_step(benchmark::State& state, const std::function<double(const Cluster&)>& seconds) {
  const int ranks = static_cast<int>(state.range(0));
  const Cluster cluster = cluster_of(ranks, {.bytes_per_s = 300e9, .latency_s = 2e-6},
                                     {.bytes_per_s = 25e9, .latency_s = 5e-6});
  double sum = 0.0;
  for (auto _ : state) {
    const double took = seconds(cluster);
    state.SetIterationTime(took);
    sum += took;
  }
  const double operations =
      static_cast<double>(state.iterations()) * static_cast<double>(kStepOperations) * ranks;
  state.counters["ns_per_rank_op"] = 1e9 * sum / operations;
  state.counters["rank_ops_per_s"] = operations / sum;
}

void run_step(benchmark::State& state) {
  measure_step(state, [](const Cluster& cluster) {
    FiberWorld world({.cluster = cluster, .has_data = false});
    const double begin = processor_seconds();
    world.run(step_of_a_plan);
    return processor_seconds() - begin;
  });
}

void replay_step(benchmark::State& state) {
  measure_step(state, [](const Cluster& cluster) {
    Recorder recorder(cluster.num_ranks());
    RankPrograms programs{
        .programs = {recorder.record(0, [](Runtime& runtime, Communicator& everyone,
                                           ProgramWriter&) { step_of_a_plan(runtime, everyone); })},
        .of_rank = std::vector<int>(static_cast<std::size_t>(cluster.num_ranks()), 0),
        .neighbours = kNode};
    ReplayWorld world({.cluster = cluster}, programs);
    const double begin = processor_seconds();
    world.run();
    return processor_seconds() - begin;
  });
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(1024)->Arg(kLargestWorld)->UseManualTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(collective_participation)->Apply(sizes);
BENCHMARK(two_axes)->Apply(sizes);
BENCHMARK(whole_world)->Apply(sizes);
BENCHMARK(three_communicators)->Apply(sizes);
BENCHMARK(run_step)->Arg(1024)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(replay_step)->Apply(sizes);

}  // namespace
}  // namespace shardsim

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (shardsim::too_large) {
    std::fprintf(stderr, "FAILED: a rank of %d keeps 16 KiB or more resident\n",
                 shardsim::kLargestWorld);
  }
  return shardsim::too_large ? 1 : 0;
}
