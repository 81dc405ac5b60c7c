#include <catch2/catch.hpp>

#include "sim/hardware/software.hpp"

#include "backends/graph_scope.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

// Effects of the host and of concurrent work on a rank's clock, through the runtime and the
// communicators that strategies use. A kernel moves 1 MB in 1 us; two ranks have 1 us and 100 GB/s
// between them.
namespace shardsim {
namespace {

using test::us;

void kernel(Runtime& runtime, std::int64_t microseconds) {
  runtime.compute({"kernel", ComputeKind::memory_bound, DType::int8, 0, microseconds * 1'000'000},
                  [] {});
}

Time end_of(const Cluster& cluster, const FiberWorld::RankBody& body) {
  FiberWorld world({.cluster = cluster, .has_data = false});
  world.run(body);
  return world.engine().rank(0).now();
}

// A ring all_reduce of 200 kB on two ranks: 2 x (1 us + 1 us).
constexpr std::int64_t kFourMicroseconds = 200'000;

Tensor buffer_of(Runtime& runtime) {
  return runtime.allocate(MemoryCategory::comm, {kFourMicroseconds}, DType::int8);
}

}  // namespace

TEST_CASE("each kernel and each call waits for its host") {
  Cluster cluster = test_cluster(2);
  cluster.device.host_s_per_kernel = 3e-6;
  cluster.device.host_s_per_call = 7e-6;
  CHECK(end_of(cluster, [](Runtime& runtime, Communicator& world) {
          kernel(runtime, 1);  // Issued at 3, ends at 4.
          const Tensor buffer = buffer_of(runtime);
          world.all_reduce(buffer, ReduceOp::sum).wait();  // Issued at 10, ends at 14.
          kernel(runtime, 1);                              // Issued at 13: no wait.
        }) == us(15));
}

TEST_CASE("the host launches a graph, and none of its kernels") {
  Cluster cluster = test_cluster(2);
  cluster.device.host_s_per_kernel = 3e-6;
  const auto end = [&](bool first, bool second) {
    return end_of(cluster, [&](Runtime& runtime, Communicator&) {
      {
        const Runtime::Graph graph(runtime, first);
        kernel(runtime, 1);
        const Runtime::Graph within(runtime, first);  // Has no effect of its own.
        kernel(runtime, 1);
      }
      {
        const Runtime::Graph graph(runtime, second);
        kernel(runtime, 1);
        kernel(runtime, 1);
      }
      kernel(runtime, 1);
    });
  };
  CHECK(end(false, false) == us(5 * 3 + 1));
  CHECK(end(true, false) == us(3 + 3 * 3 + 1));  // The host is late for all but the first graph.
  CHECK(end(true, true) == us(3 + 3 + 3 + 1));   // Launched at 3, 6 and 9.
  const auto end_with_another_within = [&](bool captured) {
    return end_of(cluster, [&](Runtime& runtime, Communicator&) {
      const Runtime::Graph graph(runtime, captured);
      kernel(runtime, 1);
      {
        const Runtime::OutsideGraph outside(runtime);
        kernel(runtime, 1);
        kernel(runtime, 1);
      }
      kernel(runtime, 1);
    });
  };
  CHECK(end_with_another_within(false) == us(4 * 3 + 1));
  CHECK(end_with_another_within(true) == us(3 + 2 * 3 + 1 + 1));  // The last one was launched at 3.
  Software eager{.name = "test", .source = "this test"};
  eager.uses.at(static_cast<std::size_t>(KernelFamily::other)) = {4.0, 1.0};
  cluster.device.software = &eager;
  CHECK(end(false, false) == us(5 * 12 + 1));
  CHECK(end(true, true) == us(3 + 3 + 12 + 1));
}

TEST_CASE("a host that waits for transfers cannot run ahead over them") {
  const auto body = [](Runtime& runtime, Communicator& world) {
    kernel(runtime, 20);
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {100'000}, DType::int8);
    if (world.rank() == 0) {
      world.recv(buffer, 1).wait();  // 2 us from 23 on.
    } else {
      world.send(buffer, 0).wait();
    }
    kernel(runtime, 1);
  };
  Cluster cluster = test_cluster(2);
  cluster.device.host_s_per_kernel = 3e-6;
  CHECK(end_of(cluster, body) == us(3 + 20 + 2 + 1));
  Software waiting{.name = "test", .source = "this test"};
  waiting.host_waits_for_transfers = true;
  cluster.device.software = &waiting;
  CHECK(end_of(cluster, body) == us(3 + 20 + 2 + 3 + 1));
}

TEST_CASE("a host that waits for kernels never runs ahead") {
  Cluster cluster = test_cluster(2);
  cluster.device.host_s_per_kernel = 3e-6;
  const auto body = [](Runtime& runtime, Communicator& world) {
    kernel(runtime, 20);
    kernel(runtime, 20);
    const Tensor buffer = buffer_of(runtime);
    world.all_reduce(buffer, ReduceOp::sum).wait();  // 4 us.
    kernel(runtime, 1);
  };
  CHECK(end_of(cluster, body) == us(3 + 20 + 20 + 4 + 1));
  cluster.device.host_waits_for_kernels = true;
  CHECK(end_of(cluster, body) == us(3 + 20 + 3 + 20 + 4 + 3 + 1));
}

TEST_CASE("decisions on values are the host's, which waits for them") {
  Cluster cluster = test_cluster(2);
  cluster.device.host_s_per_kernel = 3e-6;
  CHECK(end_of(cluster, [](Runtime& runtime, Communicator&) {
          kernel(runtime, 20);
          CHECK_FALSE(runtime.decide("skip step", true, false));
          kernel(runtime, 1);
        }) == us(3 + 20 + 3 + 1));
}

TEST_CASE("computing takes longer while a collective runs beside it, not while one is waited for") {
  Cluster cluster = test_cluster(2);
  cluster.device.slowdown_beside_collectives = 0.5;
  CHECK(end_of(cluster, [](Runtime& runtime, Communicator& world) {
          const Tensor buffer = buffer_of(runtime);
          Work work = world.all_reduce(buffer, ReduceOp::sum);  // 0 .. 4
          kernel(runtime, 10);                                  // Half of 4 us longer.
          work.wait();
          world.all_reduce(buffer, ReduceOp::sum).wait();  // 4 us, beside nothing.
        }) == us(12 + 4));
}

TEST_CASE("nothing starts before the host has posted it") {
  Cluster cluster = test_cluster(2);
  cluster.device.host_s_per_call = 7e-6;
  CHECK(end_of(cluster, [](Runtime& runtime, Communicator& world) {
          const Tensor buffer = buffer_of(runtime);
          Work first = world.all_reduce(buffer, ReduceOp::sum);                      // 7 .. 11
          Work second = world.all_reduce(buffer, ReduceOp::sum, {.after = &first});  // 14 .. 18
          first.wait();
          second.wait();
        }) == us(18));
}

}  // namespace shardsim
