// What a step of gossip costs on a cluster, beside the all_reduce that it replaces: the strategy's
// own code on tensors that have a shape and no data.

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "backends/fiber/fiber_world.hpp"

#include "gossip.hpp"

namespace {

constexpr std::int64_t kWeights = 1'000'000'000;
constexpr int kGpusPerNode = 8;

shardsim::Cluster cluster_of(int nodes) {
  shardsim::Cluster cluster;
  cluster.num_nodes = nodes;
  cluster.gpus_per_node = kGpusPerNode;
  cluster.intra_node = {.bytes_per_s = 450e9, .latency_s = 2e-6};  // NVLink 4, per direction.
  cluster.inter_node = {.bytes_per_s = 50e9, .latency_s = 5e-6};   // 400 Gbit/s per GPU.
  cluster.device.memory_bytes = std::int64_t{80} << 30;
  cluster.device.memory_bytes_per_s = 3.35e12;
  cluster.device.peak_flops_per_s.fill(989e12);
  return cluster;
}

void print_cost(const char* name, int nodes,
                const std::function<void(shardsim::Runtime&, shardsim::Communicator&,
                                         const shardsim::Tensor&)>& synchronize) {
  shardsim::FiberOptions options;
  options.cluster = cluster_of(nodes);
  options.has_data = false;
  shardsim::FiberWorld world(options);
  world.run([&](shardsim::Runtime& runtime, shardsim::Communicator& all) {
    const shardsim::Tensor weights =
        runtime.allocate(shardsim::MemoryCategory::params, {kWeights}, shardsim::DType::bf16);
    synchronize(runtime, all, weights);
  });
  std::printf("%-12s %5d ranks  %9.3f ms  %.2f GB sent by each rank\n", name, nodes * kGpusPerNode,
              1e3 * world.engine().rank(0).now().seconds(),
              1e-9 * static_cast<double>(world.sent_by_rank().front()));
}

}  // namespace

int main() {
  for (const int nodes : {1, 8, 64}) {
    print_cost("gossip", nodes, [](auto& runtime, auto& all, const auto& weights) {
      average_with_neighbour(runtime, all, weights);
    });
    print_cost("all_reduce", nodes, [](auto&, auto& all, const auto& weights) {
      all.all_reduce(weights, shardsim::ReduceOp::avg).wait();
    });
  }
  return EXIT_SUCCESS;
}
