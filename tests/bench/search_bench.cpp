#include <benchmark/benchmark.h>

#include "sim/search/plan_search.hpp"

// Configurations per second of a search: those that are simulated in full, and those that bounds
// decide, each also by itself. One job, so that figures are of one core.
namespace shardsim {
namespace {

SearchRequest request() {
  SearchRequest request;
  request.model = "llama3-8b";
  request.gpu = "h100";
  request.num_gpus = 16;
  request.global_batch_size = 32;
  request.fixed = {"cp=1", "recompute=none,full", "schedule=none,1f1b,interleaved_1f1b"};
  return request;
}

void search_a_space(benchmark::State& state) {
  const SearchRequest asked = request();
  const SearchBase base = prepare_search(asked);
  double candidates = 0;
  double simulated = 0;
  for (auto _ : state) {
    const SearchOutcome outcome = search(base, asked, {});
    candidates += static_cast<double>(outcome.num_candidates);
    simulated += static_cast<double>(outcome.simulated.size());
  }
  state.counters["configurations/s"] = benchmark::Counter(candidates, benchmark::Counter::kIsRate);
  state.counters["simulated/s"] = benchmark::Counter(simulated, benchmark::Counter::kIsRate);
}

void bound_a_candidate(benchmark::State& state) {
  const SearchRequest asked = request();
  const SearchBase base = prepare_search(asked);
  const std::vector<Candidate> all = enumerate_candidates(compile(base.scenario), base.fixed);
  const Experiment experiment = compile(base.scenario);
  BoundTable bounds(experiment);
  std::size_t next = 0;
  for (auto _ : state) {
    const Candidate& candidate = all[next++ % all.size()];
    benchmark::DoNotOptimize(state.range(0) == 0 ? bounds.quick(candidate)
                                                 : bounds.close(candidate));
  }
}

void read_a_candidate(benchmark::State& state) {
  const SearchRequest asked = request();
  const SearchBase base = prepare_search(asked);
  const Candidate first = enumerate_candidates(compile(base.scenario), base.fixed).front();
  for (auto _ : state) benchmark::DoNotOptimize(scenario_of(base, first).system.ranks);
}

BENCHMARK(search_a_space)->Unit(benchmark::kMillisecond);
BENCHMARK(bound_a_candidate)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(read_a_candidate)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
