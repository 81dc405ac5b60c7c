#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tests/flows/leaf_traffic.hpp"

// Flows that share links. The end times of the first three are those that SimGrid 3.32 recorded; on
// one core of the machine of the design it took 0.010 and 0.64 s for local traffic, 0.15 and 33.9 s
// for random traffic, 0.025 and 3.35 s for equal sizes, of 1,000 and 10,000 flows each. Aims: a
// tenth of that for local traffic and equal sizes, no more than that for random traffic; 4 s and
// 200 MB for a million operations.
namespace shardsim {
namespace {

// Memory of this process.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

void traffic(benchmark::State& state, test::Traffic kind, double end_s) {
  const test::LeafTraffic traffic{kind, static_cast<std::uint32_t>(state.range(0)),
                                  static_cast<std::uint32_t>(state.range(1)), end_s};
  double end = 0;
  std::int64_t num_rated = 0;
  for (auto _ : state) {
    FlowNetwork network;
    end = test::run_leaf_traffic(network, traffic);
    num_rated = network.num_rated();
  }
  if (std::abs(end - end_s) > 1e-9) state.SkipWithError("the last flow ends at another time");
  state.counters["end_ns"] = end * 1e9;
  state.counters["rated"] = static_cast<double>(num_rated);
}

#define TRAFFIC(name, kind, flows, gpus, end_s)                \
  BENCHMARK_CAPTURE(traffic, name, test::Traffic::kind, end_s) \
      ->Args({flows, gpus})                                    \
      ->Unit(benchmark::kMillisecond)                          \
      ->Iterations(1)
TRAFFIC(local, local, 1000, 1024, 0.001999676);
TRAFFIC(local, local, 10000, 2048, 0.008795653);
TRAFFIC(local, local, 98304, 16384, 0.011206189);
TRAFFIC(random, random, 1000, 1024, 0.006017326);
TRAFFIC(random, random, 10000, 1024, 0.045697938);
TRAFFIC(equal, equal, 1000, 1024, 0.005);
TRAFFIC(equal, equal, 10000, 1024, 0.041625);
#undef TRAFFIC

// A training of so many GPUs, 8 to a node: each node's tp collective over its 16 ports, a dp ring
// of 128 cards per 128 GPUs, and each GPU sending to the same GPU of the next node. Each starts
// again after a drawn pause.
class Training {
 public:
  Training(FlowNetwork& network, std::uint32_t num_gpus) : network_(network), gpus_(num_gpus) {
    const FlowRate port = rate_of(450e9);
    const FlowRate card = rate_of(50e9);
    for (std::uint32_t i = 0; i < 2 * gpus_; ++i)
      network.add_link("port" + std::to_string(i), port);
    for (std::uint32_t i = 0; i < 2 * gpus_; ++i)
      network.add_link("card" + std::to_string(i), card);
    for (std::uint32_t node = 0; node < gpus_ / kNode; ++node) add_tp(node);
    for (std::uint32_t ring = 0; ring < gpus_ / kRing; ++ring) add_dp(ring);
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) add_send(gpu);
    for (std::size_t i = 0; i < kinds_.size(); ++i) start(i, Time());
  }

  void run(std::int64_t num_operations) {
    std::vector<EndedFlow> ended;
    while (num_operations > 0) {
      ended.clear();
      network_.advance(*network_.next(), ended);
      num_operations -= static_cast<std::int64_t>(ended.size());
      for (const EndedFlow& flow : ended) start(static_cast<std::size_t>(flow.id), network_.now());
    }
  }

 private:
  static constexpr std::uint32_t kNode = 8;
  static constexpr std::uint32_t kRing = 128;
  struct Kind {
    FlowDemand demand;
    std::int64_t least_us;
    std::int64_t most_us;
  };

  FlowDemand demand(double bytes_per_s, std::int64_t alone_us) const {
    FlowDemand made;
    made.rate_cap = rate_of(bytes_per_s);
    made.work = Int128{made.rate_cap} * (alone_us * kMicrosecond);
    return made;
  }
  void add_tp(std::uint32_t node) {
    FlowDemand tp = demand(360e9, 100);
    for (std::uint32_t i = 0; i < 2 * kNode; ++i)
      tp.links.push_back({.link = 2 * kNode * node + i});
    tp.owner = 0;
    kinds_.push_back({tp, 50, 130});
  }
  // Ring r has the cards of one rail in 128 nodes.
  void add_dp(std::uint32_t ring) {
    FlowDemand dp = demand(45e9, 5000);
    const std::uint32_t first_node = ring / kNode * kRing;
    for (std::uint32_t i = 0; i < kRing; ++i) {
      const std::uint32_t gpu = ((first_node + i) * kNode + ring % kNode) % gpus_;
      dp.links.push_back({.link = 2 * gpus_ + 2 * gpu});
      dp.links.push_back({.link = 2 * gpus_ + 2 * gpu + 1});
    }
    dp.owner = 1;
    kinds_.push_back({dp, 2000, 3000});
  }
  void add_send(std::uint32_t gpu) {
    FlowDemand send = demand(45e9, 50);
    const std::uint32_t to = (gpu + kNode) % gpus_;
    send.links = {{.link = 2 * gpus_ + 2 * gpu}, {.link = 2 * gpus_ + 2 * to + 1}};
    send.owner = 2;
    kinds_.push_back({send, 200, 600});
  }
  void start(std::size_t kind, Time now) {
    const Kind& made = kinds_[kind];
    const std::int64_t range = (made.most_us - made.least_us) * kMicrosecond;
    const auto drawn = static_cast<std::int64_t>(draws_.next() % static_cast<std::uint64_t>(range));
    const Time pause = Time::from_picoseconds(made.least_us * kMicrosecond + drawn);
    network_.start(FlowId(static_cast<std::int64_t>(kind)), now + pause, made.demand);
  }

  static constexpr std::int64_t kMicrosecond = 1'000'000;
  FlowNetwork& network_;
  std::uint32_t gpus_;
  std::vector<Kind> kinds_;
  test::XorShift64 draws_;
};

void training(benchmark::State& state) {
  std::int64_t solves = 0;
  std::int64_t rated = 0;
  const std::int64_t before = resident_bytes();
  std::int64_t used = 0;
  for (auto _ : state) {
    FlowNetwork network({.num_owners = 3});
    Training(network, static_cast<std::uint32_t>(state.range(1))).run(state.range(0));
    solves = network.num_solves();
    rated = network.num_rated();
    used = resident_bytes() - before;
  }
  state.counters["solves"] = static_cast<double>(solves);
  state.counters["rated"] = static_cast<double>(rated);
  state.counters["MB"] = static_cast<double>(used) / 1e6;
}
BENCHMARK(training)
    ->Args({10000, 1024})
    ->Args({1000000, 16384})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace shardsim

BENCHMARK_MAIN();
