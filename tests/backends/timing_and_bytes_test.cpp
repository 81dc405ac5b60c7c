#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

// Times and bytes against the closed forms. The world of these tests:
//
//   node 0: ranks 0..3   node 1: ranks 4..7     inside:  1 us, 100 GB/s
//                                               between: 5 us,  10 GB/s per rank
namespace shardsim {
namespace {

using test::us;

// Virtual time of one operation on an idle network.
Time time_of(const Cluster& cluster, const FiberWorld::RankBody& body,
             Algorithm algorithm = Algorithm::automatic) {
  FiberWorld world({.cluster = cluster, .has_data = false, .all_reduce_algorithm = algorithm});
  world.run(body);
  Time latest;
  for (int rank = 0; rank < cluster.num_ranks(); ++rank) {
    latest = max(latest, world.engine().rank(rank).now());
  }
  return latest;
}

FiberWorld::RankBody all_reduce_of(std::int64_t count) {
  return [count](Runtime& runtime, Communicator& world) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {count}, DType::int8);
    world.all_reduce(buffer, ReduceOp::sum).wait();
  };
}

}  // namespace

TEST_CASE("P4: a ring all_reduce in one node takes 2 (N-1) (alpha + n/N / beta)") {
  // 4 ranks, 4 MB: 6 x (1 us + 1 MB / 100 GB/s) = 6 x 11 us.
  CHECK(time_of(test_cluster(4), all_reduce_of(4'000'000), Algorithm::ring) == us(66));
}

TEST_CASE("P4: a ring over nodes is paced by the network cards of a node together") {
  // 8 ranks on 2 nodes, 8 MB: 4 cards of 10 GB/s make 40: 14 x (5 us + 1 MB / 40 GB/s).
  CHECK(time_of(test_cluster(8, 4), all_reduce_of(8'000'000), Algorithm::ring) == us(14 * 30));
  // One rank per node: one card each, 14 x (5 us + 1 MB / 10 GB/s).
  CHECK(time_of(test_cluster(8, 1), all_reduce_of(8'000'000), Algorithm::ring) == us(14 * 105));
}

TEST_CASE(
    "P4: the flat ring over nodes of one rank gives the known times of a per-message simulation") {
  // 2 (N-1) (5 us + B/N / 50 GB/s), 1 MiB: what SimGrid computes message by message.
  const double known_us[] = {189.322, 671.288};
  const int sizes[] = {16, 64};
  for (int i = 0; i < 2; ++i) {
    Cluster cluster = test_cluster(sizes[i], 1);
    cluster.inter_node.bytes_per_s = 50e9;
    const Time time = time_of(cluster, all_reduce_of(1 << 20), Algorithm::ring);
    CHECK(time.seconds() * 1e6 == Approx(known_us[i]).margin(0.0006));  // Printed to 3 digits.
  }
}

TEST_CASE("small messages take the tree, large ones the ring, and never the dearer one") {
  const Cluster cluster = test_cluster(32, 4);
  // Tree: 2 x (3 x 1 us + 3 x 5 us) + 2 x 8 B / 40 GB/s = 36.0004 us; ring: 62 x 5 us and more.
  CHECK(time_of(cluster, all_reduce_of(8)) == us(36.0004));
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 16, std::int64_t{1} << 26}) {
    const Time ring = time_of(cluster, all_reduce_of(bytes), Algorithm::ring);
    const Time tree = time_of(cluster, all_reduce_of(bytes), Algorithm::tree);
    CHECK(time_of(cluster, all_reduce_of(bytes)) == min(ring, tree));
  }
  CHECK(time_of(cluster, all_reduce_of(std::int64_t{1} << 30)) ==
        time_of(cluster, all_reduce_of(std::int64_t{1} << 30), Algorithm::ring));
}

TEST_CASE("P4: a send takes alpha + n / beta of its tier") {
  const auto message = [](int to) {
    return [to](Runtime& runtime, Communicator& world) {
      const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1'000'000}, DType::int8);
      if (world.rank() == 0) world.send(buffer, to).wait();
      if (world.rank() == to) world.recv(buffer, 0).wait();
    };
  };
  CHECK(time_of(test_cluster(8, 4), message(3)) == us(11));
  CHECK(time_of(test_cluster(8, 4), message(4)) == us(105));
}

TEST_CASE("operations of one communicator queue, those of two overlap") {
  const auto two_reductions = [](bool same_communicator) {
    return [same_communicator](Runtime& runtime, Communicator& world) {
      const auto other = world.split(0, world.rank(), "other");
      const Tensor a = runtime.allocate(MemoryCategory::comm, {4'000'000}, DType::int8);
      const Tensor b = runtime.allocate(MemoryCategory::comm, {4'000'000}, DType::int8);
      Work first = world.all_reduce(a, ReduceOp::sum);
      Work second = (same_communicator ? world : *other).all_reduce(b, ReduceOp::sum);
      second.wait();
      first.wait();
    };
  };
  const Time split = time_of(test_cluster(4), [](Runtime&, Communicator& world) {
    (void)world.split(0, world.rank(), "other");
  });
  CHECK(time_of(test_cluster(4), two_reductions(true)) == split + us(132));
  CHECK(time_of(test_cluster(4), two_reductions(false)) == split + us(66));
}

TEST_CASE("a work that follows another starts at its end while compute goes on") {
  // reduce_scatter 0..33 us, the all_reduce behind it 33..; compute 50 us meanwhile.
  FiberWorld world({.cluster = test_cluster(4), .has_data = false});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const auto other = everyone.split(0, everyone.rank(), "other");
    const Tensor full = runtime.allocate(MemoryCategory::comm, {4'000'000}, DType::int8);
    const Tensor part = full.view(1'000'000 * everyone.rank(), {1'000'000});
    Work scatter = everyone.reduce_scatter(part, full, ReduceOp::sum);
    Work reduce = other->all_reduce(part, ReduceOp::sum, {.after = &scatter});
    runtime.compute({"work", ComputeKind::memory_bound, DType::fp32, 0, 50'000'000}, [] {});
    reduce.wait();
    scatter.wait();
  });
  // split 2 us, scatter 3 x 11 = 33 us, all_reduce of 1 MB 6 x (1 + 2.5) = 21 us.
  CHECK(world.engine().rank(0).now() == us(2 + 33 + 21));
  CHECK(world.engine().rank(0).split().compute == us(50));
  CHECK(world.engine().rank(0).split().exposed_comm == us(2 + 4));
}

TEST_CASE("`after` may name a work whose end nobody knows yet") {
  // Rank 1 comes 100 us late to the first operation; the second was posted long before.
  FiberWorld world({.cluster = test_cluster(2), .has_data = false});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const auto other = everyone.split(0, everyone.rank(), "other");
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {1'000'000}, DType::int8);
    if (everyone.rank() == 1) {
      runtime.compute({"late", ComputeKind::memory_bound, DType::fp32, 0, 100'000'000}, [] {});
    }
    Work first = everyone.all_reduce(buffer, ReduceOp::sum);
    Work second = other->all_reduce(buffer, ReduceOp::sum, {.after = &first});
    second.wait();
    first.wait();
  });
  // 1 us split, 100 us late, then 2 x (1 + 5) us twice.
  CHECK(world.engine().rank(0).now() == us(1 + 100 + 12 + 12));
  CHECK(world.engine().rank(0).split().bubble == us(100 + 12));
}

TEST_CASE("P3: bytes per rank equal the formulas, and what is sent is received") {
  rc::prop("for every size, count and operation", [] {
    const int size = *rc::gen::inRange(1, 12);
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(0, 60);
    const bool tree = *rc::gen::arbitrary<bool>();
    FiberWorld world({.cluster = test_cluster(size),
                      .has_data = false,
                      .all_reduce_algorithm = tree ? Algorithm::tree : Algorithm::ring});
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const Tensor any = runtime.allocate(MemoryCategory::comm, {count}, DType::bf16);
      const Tensor full = runtime.allocate(MemoryCategory::comm, {count * size}, DType::bf16);
      const std::string names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                   "broadcast",  "reduce",         "gather",     "scatter"};
      std::vector<std::unique_ptr<Communicator>> groups;
      for (const std::string& name : names) {
        groups.push_back(everyone.split(0, everyone.rank(), name));
      }
      const int root = size / 2;
      groups[0]->all_reduce(any, ReduceOp::sum).wait();
      groups[1]->reduce_scatter(any, full, ReduceOp::sum).wait();
      groups[2]->all_gather(full, any).wait();
      groups[3]->all_to_all(full, full, {}, {}).wait();
      groups[4]->broadcast(any, root).wait();
      groups[5]->reduce(any, ReduceOp::sum, root).wait();
      groups[6]->gather(full, any, root).wait();
      groups[7]->scatter(any, full, root).wait();
    });
    // n = bytes of the full buffer; all but all_to_all, gather and scatter sum to (N-1) n times 1
    // or 2, whatever the algorithm.
    const std::int64_t n_any = count * 2;
    const std::int64_t n_full = count * size * 2;
    const auto sent = [&](const char* name) { return world.traffic().at(name).payload_sent; };
    RC_ASSERT(sent("all_reduce") == 2 * (size - 1) * n_any);
    RC_ASSERT(sent("reduce_scatter") == (size - 1) * n_full);
    RC_ASSERT(sent("all_gather") == (size - 1) * n_full);
    RC_ASSERT(sent("all_to_all") == (size - 1) * n_full);
    RC_ASSERT(sent("broadcast") == (size - 1) * n_any);
    RC_ASSERT(sent("reduce") == (size - 1) * n_any);
    RC_ASSERT(sent("gather") == (size - 1) * n_any);
    RC_ASSERT(sent("scatter") == (size - 1) * n_any);
    for (const auto& [name, counters] : world.traffic()) {
      RC_ASSERT(counters.payload_sent == counters.payload_received);
      RC_ASSERT(counters.to_next == counters.from_previous);
    }
  });
}

TEST_CASE("P3: each rank of an uneven ring sends all chunks but two") {
  // 7 elements of 2 bytes over 4 ranks: chunks 2, 2, 2, 1; rank i sends 2n - c[i] - c[i+1].
  FiberWorld world(
      {.cluster = test_cluster(4), .has_data = false, .all_reduce_algorithm = Algorithm::ring});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {7}, DType::bf16);
    everyone.all_reduce(buffer, ReduceOp::sum).wait();
  });
  CHECK(world.sent_by_rank() == std::vector<std::int64_t>{20, 20, 22, 22});
}

TEST_CASE("P3: padding and scalars are counted apart from payload") {
  // 10 real elements padded to 12 over 4 ranks, chunks of 3: the last member's holds 1 real one.
  FiberWorld world({.cluster = test_cluster(4), .has_data = false});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {12}, DType::int8);
    const Tensor part = runtime.allocate(MemoryCategory::comm, {3}, DType::int8);
    everyone.reduce_scatter(part, full, ReduceOp::sum, {.padding = 2}).wait();
    everyone.all_reduce(part, ReduceOp::sum, {.traffic = TrafficClass::scalar}).wait();
  });
  const TrafficCounters& counters = world.traffic().at("world");
  CHECK(counters.payload_sent == 3 * 10);
  CHECK(counters.padding_sent == 3 * 2);
  CHECK(counters.scalar_sent == 2 * 3 * 3);
  CHECK(counters.calls == 4);
  CHECK(counters.scalar_calls == 4);
}

}  // namespace shardsim
