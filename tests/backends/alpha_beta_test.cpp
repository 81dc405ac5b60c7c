#include <functional>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "tests/backends/fiber_fixture.hpp"

// P4 for every operation: time = what latency costs + bytes / bandwidth.
namespace shardsim {
namespace {

// One call of each operation with chunks of `count` bytes.
using TimedCall = std::function<Work(Communicator&, const Tensor& whole, const Tensor& part)>;

std::map<std::string, TimedCall> calls() {
  return {
      {"all_reduce", [](Communicator& g, const Tensor& whole,
                        const Tensor&) { return g.all_reduce(whole, ReduceOp::sum); }},
      {"reduce_scatter",
       [](Communicator& g, const Tensor& whole, const Tensor& part) {
         return g.reduce_scatter(part, whole, ReduceOp::sum);
       }},
      {"all_gather", [](Communicator& g, const Tensor& whole,
                        const Tensor& part) { return g.all_gather(whole, part); }},
      {"all_to_all", [](Communicator& g, const Tensor& whole,
                        const Tensor&) { return g.all_to_all(whole, whole, {}, {}); }},
      {"broadcast",
       [](Communicator& g, const Tensor& whole, const Tensor&) { return g.broadcast(whole, 1); }},
      {"reduce", [](Communicator& g, const Tensor& whole,
                    const Tensor&) { return g.reduce(whole, ReduceOp::sum, 1); }},
      {"gather", [](Communicator& g, const Tensor& whole,
                    const Tensor& part) { return g.gather(whole, part, 1); }},
      {"scatter", [](Communicator& g, const Tensor& whole,
                     const Tensor& part) { return g.scatter(part, whole, 1); }},
      {"send and recv",
       [](Communicator& g, const Tensor& whole, const Tensor&) {
         // From the first rank to the last, which may be on another node.
         if (g.rank() == 0) return g.send(whole, g.size() - 1);
         return g.rank() == g.size() - 1 ? g.recv(whole, 0) : Work();
       }},
  };
}

Time time_of(const Cluster& cluster, const TimedCall& call, std::int64_t count,
             Algorithm algorithm) {
  FiberWorld world({.cluster = cluster, .has_data = false, .all_reduce_algorithm = algorithm});
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const std::int64_t whole = count * everyone.size();
    const Tensor full = runtime.allocate(MemoryCategory::comm, {whole}, DType::int8);
    const Tensor part = runtime.allocate(MemoryCategory::comm, {count}, DType::int8);
    call(everyone, full, part).wait();
  });
  Time latest;
  for (int rank = 0; rank < cluster.num_ranks(); ++rank) {
    latest = max(latest, world.engine().rank(rank).now());
  }
  return latest;
}

Cluster with_half_the_bandwidth(Cluster cluster) {
  cluster.intra_node.bytes_per_s *= 0.5;
  cluster.inter_node.bytes_per_s *= 0.5;
  return cluster;
}

}  // namespace

TEST_CASE("P4: half the bandwidth doubles what bytes cost, and nothing else") {
  // Round numbers: all prices are whole picoseconds, so == it is.
  constexpr std::int64_t kBytes = 1'000'000;
  for (const int gpus_per_node : {8, 4, 1}) {
    const Cluster cluster = test_cluster(8, gpus_per_node);
    const Cluster slower = with_half_the_bandwidth(cluster);
    for (const auto& [name, call] : calls()) {
      for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree}) {
        INFO(name << ", " << gpus_per_node << " per node");
        const Time latency = time_of(cluster, call, 0, algorithm);
        CHECK(latency > Time());
        CHECK(time_of(slower, call, 0, algorithm) == latency);
        const Time bytes = time_of(cluster, call, kBytes, algorithm) - latency;
        CHECK(bytes > Time());
        CHECK(time_of(slower, call, kBytes, algorithm) - latency == bytes + bytes);
      }
    }
  }
}

TEST_CASE("P4: more latency, less bandwidth or more bytes never shorten a run") {
  rc::prop("for every operation", [] {
    const Cluster cluster = test_cluster(8, *rc::gen::element(1, 2, 4, 8));
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(0, 1 << 20);
    Cluster slower = cluster;
    Link& link = *rc::gen::arbitrary<bool>() ? slower.intra_node : slower.inter_node;
    if (*rc::gen::arbitrary<bool>()) {
      link.latency_s *= 2;
    } else {
      link.bytes_per_s *= 0.5;
    }
    const std::int64_t more = count + *rc::gen::inRange<std::int64_t>(0, 1 << 20);
    for (const auto& [name, call] : calls()) {
      const Time before = time_of(cluster, call, count, Algorithm::automatic);
      RC_ASSERT(time_of(slower, call, count, Algorithm::automatic) >= before);
      RC_ASSERT(time_of(cluster, call, more, Algorithm::automatic) >= before);
    }
  });
}

}  // namespace shardsim
