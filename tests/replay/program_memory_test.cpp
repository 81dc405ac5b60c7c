#include "backends/replay/program_memory.hpp"

#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "backends/program/recorder.hpp"

// The memory of programs is the same whether or not others with equal allocations were asked for.
namespace shardsim::test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

// Allocations of a few sizes, freed in another order. `computes`: how often it computes between.
void allocate_some(Runtime& runtime, std::uint64_t seed, int computes) {
  DrawSequence draws(seed);
  const auto below = [&draws](std::uint64_t end) {
    return static_cast<std::int64_t>(draws.next() % end);
  };
  std::vector<Tensor> held;
  for (int i = 0; i < 60; ++i) {
    for (int times = 0; times < computes; ++times) {
      runtime.compute({"between", ComputeKind::matmul, DType::fp32, 10, 10}, [] {});
    }
    if (!held.empty() && below(3) == 0) {
      held.erase(held.begin() + below(held.size()));
    } else {
      const std::int64_t size = (1 + below(40)) * kMiB;
      held.push_back(runtime.allocate(MemoryCategory::activations, {size}, DType::int8));
    }
  }
}

std::vector<RankProgram> drawn_programs(int count) {
  Recorder recorder(count);
  std::vector<RankProgram> programs;
  for (int rank = 0; rank < count; ++rank) {
    const auto seed = static_cast<std::uint64_t>(rank / 2);  // Two of each.
    programs.push_back(recorder.record(rank, [&](Runtime& runtime, Communicator&, ProgramWriter&) {
      allocate_some(runtime, seed, rank % 2);
    }));
  }
  return programs;
}

}  // namespace

TEST_CASE("program memory: programs with equal allocations take the same") {
  const std::vector<RankProgram> programs = drawn_programs(12);
  ProgramMemories shared;
  std::vector<ProgramMemory> found;
  const std::vector<DeviceRoom> rooms = {{.capacity = 400 * kMiB, .outside = kMiB},
                                         {.capacity = 4000 * kMiB, .outside = kMiB},
                                         {.capacity = 4000 * kMiB, .outside = kMiB, .kept = {64}}};
  for (const DeviceRoom& room : rooms) {
    for (const RankProgram& program : programs) {
      found.push_back(shared.find(program, room));
      const ProgramMemory alone = ProgramMemories().find(program, room);
      CHECK(found.back().use == alone.use);
      CHECK(found.back().peak_step == alone.peak_step);
      // The step is the one that brought the peak.
      const ProgramStep& step = program.steps.at(found.back().peak_step);
      REQUIRE(step.kind == ProgramStep::Kind::allocate);
      CHECK(program.tables->allocation(step.row).bytes == found.back().use.peak.bytes);
    }
  }
  int num_equal = 0;
  for (std::size_t i = 0; i < found.size(); i += 2) {
    CHECK(found[i].use == found[i + 1].use);
    if (i > 0 && found[i].use == found[i - 1].use) ++num_equal;
    CHECK(found[i].peak_step < found[i + 1].peak_step);  // Behind work that takes no memory.
  }
  CHECK(num_equal == 0);
}

}  // namespace shardsim::test
