#include <catch2/catch.hpp>

#include "sim/search/candidate_bound.hpp"
#include "sim/search/plan_search.hpp"
#include "sim/search/simulate_layout.hpp"

// Batches of millions of sequences: tensors and schedules come to their limits, and a search must
// still end.
namespace shardsim::test {

namespace {

SearchRequest large_batch(std::int64_t batch, std::vector<std::string> fixed) {
  SearchRequest request;
  request.model = "gpt2";
  request.gpu = "h100";
  request.num_gpus = 4;
  request.global_batch_size = batch;
  request.fixed = std::move(fixed);
  return request;
}

}  // namespace

TEST_CASE("layouts whose counts are above the limit fail, and end no search") {
  SearchRequest request =
      large_batch(std::int64_t{1} << 23,
                  {"micro_batch_size=524288,1048576", "schedule=none", "recompute=full", "tp=1"});
  request.model = "llama3-8b";
  request.num_gpus = 8;
  const SearchBase base = prepare_search(request);
  std::size_t num_failed = 0;
  std::string first_failure;
  for (const Candidate& candidate : enumerate_candidates(compile(base.scenario), base.fixed)) {
    const Simulation run = simulate_layout(base, 0, candidate);
    if (run.failure.empty()) continue;
    CHECK_FALSE(run.point.has_value());
    ++num_failed;
    if (first_failure.empty()) first_failure = run.failure;
  }
  REQUIRE(num_failed > 0);
  const SearchOutcome outcome = search(base, request, {});
  CHECK(outcome.num_failed == num_failed);
  CHECK(outcome.first_failure == first_failure);
}

TEST_CASE("a schedule of millions of forwards is not played: its bound is at once there") {
  const SearchRequest request = large_batch(std::int64_t{1} << 23, {"micro_batch_size=1"});
  const SearchBase base = prepare_search(request);
  const Experiment experiment = compile(base.scenario);
  BoundTable bounds(experiment);
  const Candidate large = {.pp = 4, .num_microbatches = std::int64_t{1} << 19, .schedule = "1f1b"};
  CHECK_FALSE(BoundTable::plays(large));
  CHECK(bounds.close(large).step_ps == bounds.quick(large).step_ps);
  Candidate small = large;
  small.num_microbatches = std::int64_t{1} << 10;
  CHECK(BoundTable::plays(small));
  CHECK(bounds.close(small).step_ps > bounds.quick(small).step_ps);
}

}  // namespace shardsim::test
