#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <catch2/catch.hpp>

#include "tests/strategies/training_case.hpp"

// A plan's ranks do the same in every microbatch, so one more of them must not cost each rank
// allocations: at thousands of ranks these are what a plan takes its time for. This binary's
// operator new counts its calls; sanitizers see the malloc below as any other.

namespace {

std::atomic<std::int64_t> allocations = 0;

void* allocated(std::size_t bytes) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* counted(std::size_t bytes) {
  void* memory = allocated(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All forms but the over-aligned ones: a sanitizer has its own of any that is left out, and reports
// memory that goes from one to the other.
void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocated(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocated(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

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
  const std::int64_t before = allocations.load();
  (void)run(c);
  return allocations.load() - before;
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
