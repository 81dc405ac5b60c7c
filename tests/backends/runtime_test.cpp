#include "backends/runtime.hpp"

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Functions that strategies use so that they need not know whether there is data.
namespace shardsim::test {

TEST_CASE("a scalar is read as it was written, and as 0 without data") {
  for (const bool has_data : {true, false}) {
    RecordingRuntime runtime(has_data);
    const Tensor scalar = runtime.allocate(MemoryCategory::comm, {1}, DType::fp64);
    runtime.write_scalar(scalar, 2.5);
    CHECK(runtime.read_scalar(scalar) == (has_data ? 2.5 : 0.0));
    CHECK(runtime.ops().empty());
  }
}

TEST_CASE("work off the clock is done with data only, and never charged") {
  for (const bool has_data : {true, false}) {
    RecordingRuntime runtime(has_data);
    int runs = 0;
    runtime.off_the_clock([&] { ++runs; });
    CHECK(runs == (has_data ? 1 : 0));
    CHECK(runtime.ops().empty());
  }
}

TEST_CASE("zeroing fills a tensor and is charged for the bytes it writes, with and without data") {
  for (const bool has_data : {true, false}) {
    RecordingRuntime runtime(has_data);
    const Tensor tensor = runtime.allocate(MemoryCategory::grads, {3}, DType::bf16);
    runtime.off_the_clock([&] {
      for (std::int64_t i = 0; i < 3; ++i) tensor.set(i, 7.0);
    });
    runtime.zero("zero_gradients", tensor);
    runtime.off_the_clock([&] {
      for (std::int64_t i = 0; i < 3; ++i) CHECK(tensor.get(i) == 0.0);
    });
    REQUIRE(runtime.ops().size() == 1);
    CHECK(runtime.ops()[0].name == std::string("zero_gradients"));
    CHECK(runtime.ops()[0].kind == ComputeKind::memory_bound);
    CHECK(runtime.ops()[0].bytes == 6);
    CHECK(runtime.ops()[0].flops == 0);
  }
}

TEST_CASE("progress is told of a rank that only computes, sooner where operations have data") {
  for (const bool has_data : {true, false}) {
    int told = 0;
    run_ranks(1,
              [](Runtime& runtime, Communicator&) {
                for (int i = 0; i < 10'000; ++i) {
                  runtime.compute({"work", ComputeKind::memory_bound, DType::fp64, 0, 8}, [] {});
                }
              },
              {.has_data = has_data, .on_progress = [&told] { ++told; }});
    CHECK(told == (has_data ? 10'000 / 16 : 10'000 / 4096));
  }
}

}  // namespace shardsim::test
