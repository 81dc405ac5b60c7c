#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/counted_new.hpp"
#include "tests/strategies/training_case.hpp"

// A plan's ranks do the same in every microbatch, so one more of them must not cost each rank
// allocations: at thousands of ranks these are what a plan takes its time for.
namespace shardsim::test {

namespace {

struct AllocationLayout {
  MeshShape mesh;
  const char* schedule;
  int num_chunks = 1;
  bool sequence_parallel = false;
  int zero_stage = 0;
  Recompute recompute = Recompute::none;
};

std::int64_t allocations_of(const AllocationLayout& layout, int microbatches, int steps = 1) {
  TrainingCase c;
  c.model = small_model("gpt2");
  c.model.num_layers = 8;
  c.model.num_query_groups = 4;
  c.model.seq_len = 4;  // Tokens that tensor-parallel ranks divide.
  c.model.sequence_parallel = layout.sequence_parallel;
  c.model.recompute = layout.recompute;
  c.mesh = layout.mesh;
  c.zero_stage = layout.zero_stage;
  c.schedule = layout.schedule;
  c.num_chunks = layout.num_chunks;
  c.training.steps = steps;
  c.training.num_microbatches = microbatches;
  c.world.has_data = false;
  c.record = false;
  const std::int64_t before = num_allocations();
  (void)run(c);
  return num_allocations() - before;
}

// Adam with master weights on two ranks. Each parameter is a chunk of its own; at stage 3 each
// module is.
TrainingCase case_of_chunks(int zero_stage) {
  TrainingCase c;
  c.model = small_model("gpt2");
  c.model.num_layers = 8;
  c.mesh = {.dp_shard = 2};
  c.zero_stage = zero_stage;
  c.bucket_bytes = c.first_bucket_bytes = 1;
  c.optimizer = "adamw";
  c.model.dtype = DType::bf16;
  c.sync.master_dtype = DType::fp32;
  c.sync.weight_dtype = c.sync.gradient_dtype = DType::bf16;
  c.world.has_data = false;
  c.record = false;
  return c;
}

std::int64_t allocations_of_steps(TrainingCase c, int steps) {
  c.training.steps = steps;
  const std::int64_t before = num_allocations();
  (void)run(c);
  return num_allocations() - before;
}

void check_equal_but_for_growth(std::int64_t once, std::int64_t twice, int more_microbatches) {
  // A single rank that allocates in each would make it as many. Lists that grow by doubling, and
  // the schedule's lists, which all ranks share, take less.
  CHECK(once > 0);
  CHECK(twice - once < more_microbatches);
}

}  // namespace

TEST_CASE("an optimizer step costs no allocation per chunk") {
  for (const int zero_stage : {0, 1, 2, 3}) {
    constexpr int kSteps = 32;
    const TrainingCase c = case_of_chunks(zero_stage);
    const std::unique_ptr<Model> model = make_model(c.model);
    const auto chunks = zero_stage < 3 ? static_cast<std::int64_t>(model->parameters().size())
                                       : static_cast<std::int64_t>(model->num_modules());
    const std::int64_t once = allocations_of_steps(c, kSteps);
    const std::int64_t twice = allocations_of_steps(c, 2 * kSteps);
    INFO("zero " << zero_stage << ": " << once << ", " << twice);
    CHECK(once > 0);
    // Lists that grow in blocks with the run take up to a third of one per chunk, step and rank.
    CHECK(2 * (twice - once) < kSteps * chunks * c.mesh.size());
  }
}

TEST_CASE("a stage's actions cost no allocation per microbatch") {
  // Schedules that keep no more microbatches in flight than there are stages. The others keep them
  // all, each in a place of its own, which is made once: below.
  const MeshShape mesh{.dp_shard = 2, .tp = 2, .pp = 4};
  std::vector<AllocationLayout> layouts = {
      {mesh, "1f1b", 1, true},
      {mesh, "interleaved_1f1b", 2, true, 1},
      {{.dp_shard = 8, .tp = 2, .pp = 4}, "1f1b", 1, true, 1}};  // As a plan of 1,024 ranks has it.
  for (const AllocationLayout& schedule :
       {AllocationLayout{mesh, "1f1b"}, AllocationLayout{mesh, "zb_h1"},
        AllocationLayout{mesh, "interleaved_1f1b", 2}}) {
    for (const int zero_stage : {0, 1, 2, 3}) {
      layouts.push_back(schedule);
      layouts.back().zero_stage = zero_stage;
    }
  }
  for (const AllocationLayout& layout : layouts) {
    constexpr int kMicrobatches = 64;
    const std::int64_t once = allocations_of(layout, kMicrobatches);
    const std::int64_t twice = allocations_of(layout, 2 * kMicrobatches);
    INFO(layout.schedule << " x" << layout.num_chunks << ", sequence parallel "
                         << layout.sequence_parallel << ", zero " << layout.zero_stage << ", on "
                         << layout.mesh.size() << ": " << once << ", " << twice);
    check_equal_but_for_growth(once, twice, kMicrobatches);
  }
}

// Also where all microbatches are in flight at once: what holds them is kept for the next step.
TEST_CASE("a further step costs no allocation per microbatch") {
  const MeshShape mesh{.dp_shard = 2, .tp = 2, .pp = 2};
  for (const AllocationLayout& schedule :
       {AllocationLayout{mesh, "gpipe"}, AllocationLayout{mesh, "1f1b"},
        AllocationLayout{mesh, "interleaved_1f1b", 2}, AllocationLayout{mesh, "looped_bfs", 2},
        AllocationLayout{mesh, "zb_h1"}}) {
    for (const int zero_stage : {0, 1, 2, 3}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        AllocationLayout layout = schedule;
        layout.zero_stage = zero_stage;
        layout.recompute = recompute;
        const auto further_step = [&](int microbatches) {
          const std::int64_t two = allocations_of(layout, microbatches, 2);
          return allocations_of(layout, microbatches, 3) - two;
        };
        constexpr int kMicrobatches = 16;
        const std::int64_t once = further_step(kMicrobatches);
        const std::int64_t twice = further_step(2 * kMicrobatches);
        INFO(layout.schedule << ", zero " << layout.zero_stage << ", recompute "
                             << static_cast<int>(recompute) << ": " << once << ", " << twice);
        check_equal_but_for_growth(once, twice, kMicrobatches);
      }
    }
  }
}

}  // namespace shardsim::test
