#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Operations are pooled and shared by the members of a group: what happens when an object is used
// again, when calls after a mismatch go on, and when names go before the reports that quote them.
namespace shardsim {
namespace {

// Runs shape-only tensors, so that buffers may be of any size; returns where each rank's clock
// ends.
std::vector<Time> clocks_after(int ranks, const FiberWorld::RankBody& body) {
  FiberWorld world({.cluster = test_cluster(ranks), .has_data = false});
  world.run(body);
  std::vector<Time> clocks;
  for (int rank = 0; rank < ranks; ++rank) clocks.push_back(world.engine().rank(rank).now());
  return clocks;
}

}  // namespace

TEST_CASE("a collective stays behind a transfer whose object was another member's before") {
  const std::vector<Time> clocks = clocks_after(4, [](Runtime& runtime, Communicator& world) {
    const int rank = world.rank();
    const auto side = world.split(0, rank, "side");
    const Tensor small = runtime.allocate(MemoryCategory::comm, {1}, DType::fp32);
    if (rank < 2) {
      Work transfer = rank == 0 ? world.send(small, 1) : world.recv(small, 0);
      Work everyone = world.all_reduce(small, ReduceOp::sum);
      transfer.wait();
      side->send(small, rank + 2).wait();  // Only now do ranks 2 and 3 begin.
      everyone.wait();
      return;
    }
    side->recv(small, rank - 2).wait();
    // One second at the fixture's 100 GB/s.
    const Tensor large = runtime.allocate(MemoryCategory::comm, {100'000'000'000}, DType::fp8_e4m3);
    Work transfer = rank == 2 ? world.send(large, 3) : world.recv(large, 2);
    Work everyone = world.all_reduce(small, ReduceOp::sum);
    transfer.wait();
    everyone.wait();
  });
  CHECK(clocks[0] > Time::from_seconds(1.0));
}

TEST_CASE("an empty batch keeps its place on the stream") {
  const auto run = [](bool empty_batch) {
    return clocks_after(2, [=](Runtime& runtime, Communicator& world) {
      const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1 << 20}, DType::fp32);
      Work first = world.all_reduce(buffer, ReduceOp::sum);
      Work batch = empty_batch ? world.batch({}) : Work();
      Work second = world.all_reduce(buffer, ReduceOp::sum);
      second.wait();
      batch.wait();
      first.wait();
    });
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("calls that go on after a mismatch neither hide nor repeat it") {
  const bool second_mismatch = GENERATE(false, true);
  const Diagnosis diagnosis = diagnosis_of(4, [=](Runtime& runtime, Communicator& world) {
    const Tensor buffer = filled(runtime, 4, DType::fp32, [](auto) { return 1.0; });
    const bool odd_one = world.rank() == 3;
    std::vector<Work> warm_up;  // Leaves pooled objects in another order than calls come in.
    for (int i = 0; i < 3; ++i) warm_up.push_back(world.all_reduce(buffer, ReduceOp::sum));
    for (Work& work : warm_up) work.wait();
    Work first = world.all_reduce(buffer, odd_one ? ReduceOp::max : ReduceOp::sum);
    Work second = world.all_reduce(buffer, ReduceOp::sum,
                                   {.label = second_mismatch && odd_one ? "another" : "second"});
    Work third = world.all_reduce(buffer, ReduceOp::sum, {.label = "third"});
    third.wait();
    second.wait();
    first.wait();
  });
  CHECK(diagnosis.code == "COLL_REDOP");
  CHECK(diagnosis.sequence == 3);
  CHECK(diagnosis.last_matched.rfind("#2 ", 0) == 0);
  REQUIRE(diagnosis.sides.size() == 2);
  CHECK(diagnosis.sides[0].ranks == std::vector<int>{3});
}

TEST_CASE("a report may quote the name of a split long after it") {
  const std::string name(100, 'n');
  const Diagnosis diagnosis = diagnosis_of(2, [&](Runtime&, Communicator& world) {
    {
      const auto own_name = std::make_unique<std::string>(name);
      const auto child = world.split(0, world.rank(), *own_name);
      own_name->assign(own_name->size(), 'x');
    }
    if (world.rank() == 0) world.barrier().wait();
  });
  CHECK(diagnosis.code == "COLL_MISSING");
  CHECK(diagnosis.last_matched.find(name) != std::string::npos);
}

TEST_CASE("a buffered message to oneself moves nothing over the network") {
  FiberWorld world({.cluster = test_cluster(2), .buffered_sends = true});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor from = filled(runtime, 4, DType::fp32, [](auto i) { return double(i); });
    const Tensor to = filled(runtime, 4, DType::fp32, [](auto) { return -1.0; });
    everyone.send(from, everyone.rank()).wait();
    everyone.recv(to, everyone.rank()).wait();
    CHECK(to.get(3) == 3.0);
  });
  CHECK(world.total_traffic().payload_sent == 0);
  CHECK(world.total_traffic().payload_received == 0);
}

TEST_CASE("members of a split are ranked by key in groups by color, whoever asks first") {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    run_ranks(6,
              [](Runtime&, Communicator& world) {
                const int rank = world.rank();
                const auto child = world.split(rank % 2 == 0 ? 7 : 9, -rank, "parity");
                CHECK(child->size() == 3);
                CHECK(child->rank() == 2 - rank / 2);
                // A second split at the same time of life must not read the first one's choices.
                const auto again = world.split(rank / 3, rank, "half");
                CHECK(again->size() == 3);
                CHECK(again->rank() == rank % 3);
              },
              {.interleaving_seed = seed});
  }
}

}  // namespace shardsim
