#include <cstdint>

#include <catch2/catch.hpp>

#include "tests/counted_new.hpp"
#include "tests/strategies/training_case.hpp"

// A plan's ranks do the same in every microbatch, so one more of them must not cost each rank
// allocations: at thousands of ranks these are what a plan takes its time for.
namespace shardsim::test {

namespace {

std::int64_t allocations_of(const MeshShape& mesh, const char* schedule, int microbatches) {
  TrainingCase c;
  c.model = small_model("gpt2");
  c.model.num_layers = 4;
  c.model.num_query_groups = 4;
  c.mesh = mesh;
  c.schedule = schedule;
  c.training.steps = 1;
  c.training.num_microbatches = microbatches;
  c.world.has_data = false;
  c.record = false;
  const std::int64_t before = num_allocations();
  (void)run(c);
  return num_allocations() - before;
}

}  // namespace

TEST_CASE("a stage's actions cost no allocation per microbatch") {
  // Schedules that keep no more microbatches in flight than there are stages. (gpipe keeps them
  // all, each with contexts of its own.)
  for (const char* schedule : {"1f1b", "zb_h1"}) {
    for (const int dp : {1, 8}) {
      const MeshShape mesh{.dp_shard = dp, .tp = 2, .pp = 4};
      constexpr int kMicrobatches = 64;
      const std::int64_t once = allocations_of(mesh, schedule, kMicrobatches);
      const std::int64_t twice = allocations_of(mesh, schedule, 2 * kMicrobatches);
      INFO(schedule << " on " << mesh.size() << ": " << once << ", " << twice);
      CHECK(once > 0);
      // One in any action would make it at least one per microbatch and rank. What grows in blocks
      // with the run takes about a tenth.
      CHECK(4 * (twice - once) < kMicrobatches * mesh.size());
    }
  }
}

}  // namespace shardsim::test
