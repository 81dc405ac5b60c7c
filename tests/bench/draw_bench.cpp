#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "scenarios/load.hpp"
#include "sim/run/draws/fault_draws.hpp"
#include "sim/run/rank_programs.hpp"

#include "tests/bench/bench_world.hpp"

// The cost of a draw of faults, in replays of all ranks of the plan that it is drawn for, on one
// core. Draws of jitter share one walk through the programs, 32 at a time.
//
// Aims at 1,024 ranks: a draw of jitter in 0.6 s, and one of stragglers in 0.08 s.
namespace shardsim {
namespace {

using Overrides = std::vector<std::string>;

const Overrides kStragglers = {
    R"(faults.draws.stragglers=[{"part": "rank", "probability": 0.002, "slowdown": 1.1,
       "distribution": "exponential", "spread": 0.1}])"};
const Overrides kJitter = {
    R"(faults.draws.compute_jitter={"distribution": "lognormal", "spread": 0.03})",
    R"(faults.draws.communication_jitter={"distribution": "exponential", "spread": 0.1})"};

Experiment plan_with(std::int64_t nodes, std::int64_t draws, Overrides overrides) {
  overrides.push_back("system.nodes=" + std::to_string(nodes));
  overrides.push_back("training.global_batch_size=" + std::to_string(12 * nodes));
  overrides.push_back("faults.draws.count=" + std::to_string(draws));
  return compile(load_scenario("scenarios/gpt3-175b-1024xa100.json", overrides));
}

double replay_seconds(const Experiment& experiment, const RankPrograms& programs) {
  const double begin = processor_seconds();
  ReplayWorld({.cluster = experiment.world().cluster}, programs).run();
  return processor_seconds() - begin;
}

void draw(benchmark::State& state, const Overrides& faults) {
  const std::int64_t draws = state.range(1);
  const Experiment experiment = plan_with(state.range(0), draws, faults);
  const RankRecording recording = record_ranks(experiment, {}, nullptr);
  double replay_s = 0.0;
  double draws_s = 0.0;
  for (auto _ : state) {
    replay_s += replay_seconds(experiment, *recording.programs);
    const double begin = processor_seconds();
    benchmark::DoNotOptimize(draw_faults(experiment, {}, &*recording.programs, 1.0));
    const double elapsed = processor_seconds() - begin;
    state.SetIterationTime(elapsed);
    draws_s += elapsed;
  }
  const auto count = static_cast<double>(draws);
  state.counters["ms_per_draw"] = 1e3 * draws_s / count / static_cast<double>(state.iterations());
  state.counters["replays_per_draw"] = draws_s / count / replay_s;
}

void stragglers(benchmark::State& state) { draw(state, kStragglers); }
void jitter(benchmark::State& state) { draw(state, kJitter); }

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"nodes", "draws"})->UseManualTime()->Unit(benchmark::kMillisecond);
  bench->Args({8, 32});
#ifndef SHARDSIM_SANITIZED  // There they take minutes and show nothing more.
  bench->Args({8, 1})->Args({128, 1})->Args({128, 32});
#endif
}
BENCHMARK(stragglers)->Apply(sizes);
BENCHMARK(jitter)->Apply(sizes);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
