#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Sums over many ranks or long runs once left their range: durations of communication, which ended
// the program in a destructor, and operations, which made hfu negative.
namespace shardsim::test {

TEST_CASE("communication that takes 100 days on each of four streams ends in a result") {
  FiberOptions options;
  options.has_data = false;
  options.cluster = test_cluster(2);
  options.cluster.intra_node.latency_s = 0.0;
  options.cluster.intra_node.bytes_per_s = 1.0;
  FiberWorld world(options);
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor large = runtime.allocate(MemoryCategory::comm, {100 * 86400}, DType::fp8_e4m3);
    std::vector<std::unique_ptr<Communicator>> groups;
    std::vector<Work> works;
    for (int i = 0; i < 4; ++i) {
      groups.push_back(everyone.split(0, everyone.rank(), "stream"));
      works.push_back(groups.back()->broadcast(large, 0));
    }
    for (Work& work : works) work.wait();
  });
  CHECK(world.comm_busy(0) > Time::from_picoseconds(0));
}

TEST_CASE("operations of a rank may be more than 64 bits can count") {
  FiberOptions options;
  options.has_data = false;
  options.cluster = test_cluster(1);
  options.cluster.device.peak_flops_per_s.fill(1e15);
  FiberWorld world(options);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  world.run([](Runtime& runtime, Communicator&) {
    for (int i = 0; i < 4; ++i) {
      runtime.compute({"huge", ComputeKind::matmul, DType::fp32, kHuge, 1}, [] {});
    }
  });
  CHECK(world.executed_flops().front() == 0x1p64);
}

}  // namespace shardsim::test
