#include <array>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/all_backends.hpp"

// Work::test and wait_any: on all backends they end, and in virtual time they tell what is so.
namespace shardsim {
namespace {

void work_for(Runtime& runtime, std::int64_t flops) {
  runtime.compute({"work", ComputeKind::matmul, DType::fp32, flops, 0}, [] {});
}

}  // namespace

TEST_CASE("a work that has been tested until it ended is waited for") {
  run_on_all(2, [](Runtime& runtime, Communicator& world) {
    const Tensor sum = filled(runtime, 4, DType::fp32, [&](std::int64_t) { return 1.0; });
    Work work = world.all_reduce(sum, ReduceOp::sum);
    while (!work.test()) {
    }
    CHECK_FALSE(work.pending());
    CHECK(work.test());
    CHECK(sum.get(0) == 2.0);
  });
}

TEST_CASE("any of several works is waited for once, and the others stay") {
  run_on_all(2, [](Runtime& runtime, Communicator& world) {
    const auto other = world.split(0, world.rank(), "other");
    const Tensor a = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1.0; });
    const Tensor b = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 2.0; });
    std::array<Work, 3> works;  // The second is not pending.
    works[0] = world.all_reduce(a, ReduceOp::sum);
    works[2] = other->all_reduce(b, ReduceOp::sum);
    const std::optional<std::size_t> first = wait_any(works);
    REQUIRE(first);
    CHECK(*first != 1);
    CHECK_FALSE(works[*first].pending());
    CHECK(works[2 - *first].pending());
    CHECK(wait_any(works) == 2 - *first);
    CHECK_FALSE(wait_any(works));
    CHECK(a.get(0) == 2.0);
    CHECK(b.get(0) == 4.0);
  });
}

TEST_CASE("a test finds what has ended by its time, and takes a microsecond where nothing has") {
  FiberOptions options;
  options.cluster = test_cluster(2);
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const RankState& self = world.engine().rank(everyone.rank());
    const Tensor data = filled(runtime, 1000, DType::fp32, [](std::int64_t) { return 1.0; });
    Work work = everyone.all_reduce(data, ReduceOp::sum);
    const Time begin = self.now();
    CHECK_FALSE(work.test());
    CHECK(self.now() - begin == Time::from_seconds(1e-6));
    work_for(runtime, 1'000'000'000);  // Far longer than the reduction takes.
    const Time later = self.now();
    CHECK(work.test());
    CHECK(self.now() == later);
  });
}

TEST_CASE("a long communication may be tested as often as it takes") {
  FiberOptions options;
  options.has_data = false;
  run_ranks(
      8,
      [](Runtime& runtime, Communicator& world) {
        // 4 GiB at 100 GB/s: some 80 ms, and as many thousand tests of each rank.
        const Tensor data =
            runtime.allocate(MemoryCategory::comm, {std::int64_t{1} << 30U}, DType::fp32);
        Work work = world.all_reduce(data, ReduceOp::sum);
        int tests = 0;
        while (!work.test()) ++tests;
        CHECK(tests > 50'000);
      },
      options);
}

TEST_CASE("of works of other lengths the shortest ends first, in whatever order they are given") {
  for (const bool swapped : {false, true}) {
    run_ranks(2, [&](Runtime& runtime, Communicator& world) {
      const auto other = world.split(0, world.rank(), "other");
      const Tensor small = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1.0; });
      const Tensor large = filled(runtime, 1 << 20, DType::fp32, [](std::int64_t) { return 1.0; });
      std::vector<Work> works(2);
      works[swapped ? 1 : 0] = world.all_reduce(large, ReduceOp::sum);
      works[swapped ? 0 : 1] = other->all_reduce(small, ReduceOp::sum);
      CHECK(wait_any(works) == (swapped ? 0 : 1));
      CHECK(wait_any(works) == (swapped ? 1 : 0));
    });
  }
}

TEST_CASE("ranks that test for ever are a deadlock, and so are waits for any") {
  const auto tests = [](Runtime& runtime, Communicator& world) {
    const Tensor data = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1.0; });
    if (world.rank() == 1) return;
    Work work = world.all_reduce(data, ReduceOp::sum);
    while (!work.test()) {
    }
  };
  const Diagnosis tested = diagnosis_of(2, tests);
  CHECK(tested.code == "COLL_MISSING");
  CHECK(diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
          const Tensor data = filled(runtime, 4, DType::fp32, [](std::int64_t) { return 1.0; });
          if (world.rank() == 1) return;
          std::array<Work, 1> works = {world.all_reduce(data, ReduceOp::sum)};
          static_cast<void>(wait_any(works));
        }).code == "COLL_MISSING");
}

TEST_CASE("what tests find does not depend on the order in which ranks are run") {
  const auto hash_with = [](std::uint64_t seed) {
    FiberOptions options;
    options.cluster = test_cluster(4);
    options.interleaving_seed = seed;
    options.draw_launches = seed != 0;
    FiberWorld world(options);
    std::vector<int> tests(4, 0);
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const int rank = everyone.rank();
      const Tensor data = filled(runtime, 1 << 16, DType::fp32, [](std::int64_t) { return 1.0; });
      work_for(runtime, 1'000'000 * (rank + 1));
      Work work = everyone.all_reduce(data, ReduceOp::sum);
      while (!work.test()) {
        ++tests[static_cast<std::size_t>(rank)];
        work_for(runtime, 1'000'000);
      }
    });
    for (const int count : tests) CHECK(count > 0);
    tests.push_back(static_cast<int>(world.engine().trace_hash() % 1000003));
    return tests;
  };
  const std::vector<int> first = hash_with(0);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) CHECK(hash_with(seed) == first);
}

}  // namespace shardsim
