#include <algorithm>
#include <bit>

#include "sim/hardware/nccl/cost.hpp"
#include "sim/hardware/nccl/graph.hpp"

namespace shardsim {

namespace {

// --- Latency -----------------------------------------------------------------------------------

double hop(NcclHop where, NcclAlgorithm algorithm, NcclProtocol protocol) {
  return nccl_constant(NcclTable::hop_latency, at(where), at(algorithm), at(protocol));
}

// log2, rounded down.
int levels(int nodes) { return std::bit_width(static_cast<unsigned>(nodes)) - 1; }

// All channels of a ring share one order of the GPUs where each starts at the same one.
bool has_one_order(const NcclPlacement& placement) {
  return placement.nodes == 1 || placement.nics == 1;
}

// With one GPU per node nothing hides the network: a tree's hop stands for every algorithm's.
double hop_between(const NcclPlacement& placement, NcclAlgorithm algorithm, NcclProtocol protocol) {
  return hop(NcclHop::net, placement.one_gpu_per_node() ? NcclAlgorithm::tree : algorithm,
             protocol);
}

double broadcast_latency(const NcclPlacement& placement, NcclProtocol protocol) {
  const NcclHop where = placement.nodes == 1 ? NcclHop::nvlink : NcclHop::net;
  if (has_one_order(placement)) return hop(where, NcclAlgorithm::ring, protocol);
  const bool simple = protocol == NcclProtocol::simple;
  return placement.ranks * hop(where, simple ? NcclAlgorithm::tree : NcclAlgorithm::ring, protocol);
}

double ring_latency(const NcclPlatform& platform, const NcclPlacement& placement,
                    CollectiveKind kind, NcclProtocol protocol) {
  const int passes = row_of(kind).ring_passes();
  if (passes == 0) return broadcast_latency(placement, protocol);
  const int steps = passes * (placement.ranks - 1);
  const int far = passes * (placement.nodes - 1);
  // Every step between GPUs of a node still has the network to serve.
  double overhead = 0.0;
  if (placement.nodes > 1) {
    overhead = nccl_constant(NcclTable::net_overhead, at(platform.cpu));
    if (protocol == NcclProtocol::simple) overhead *= nccl_constant(NcclTable::net_overhead_simple);
  }
  const double near_hop = std::max(hop(NcclHop::nvlink, NcclAlgorithm::ring, protocol), overhead);
  return (steps - far) * near_hop + far * hop_between(placement, NcclAlgorithm::ring, protocol);
}

// --- Bandwidth ---------------------------------------------------------------------------------

// Columns of the caps: one node, two, more.
int scale_of(const NcclPlacement& placement) { return std::min(placement.nodes, 3) - 1; }

double ll_cap(const NcclPlatform& platform, const NcclPlacement& placement) {
  if (placement.nodes == 1) {
    return nccl_constant(NcclTable::ll_cap_one_node, at(platform.generation));
  }
  return nccl_constant(NcclTable::ll_cap_nodes, at(platform.cpu), scale_of(placement) - 1);
}

double ring_bandwidth(const NcclPlatform& platform, const NcclPlacement& placement,
                      const NcclGraph& graph, double bus, NcclProtocol protocol) {
  if (protocol == NcclProtocol::ll) {
    return std::min(bus * nccl_constant(NcclTable::ll_share), ll_cap(platform, placement));
  }
  if (protocol == NcclProtocol::simple) return bus;
  const double cap = nccl_constant(NcclTable::ring_ll128_cap, at(platform.version),
                                   at(platform.generation), scale_of(placement));
  return std::min(bus * nccl_constant(NcclTable::ring_ll128_share), graph.channels * cap);
}

double tree_bandwidth(const NcclPlatform& platform, const NcclPlacement& placement,
                      const NcclGraph& graph, double bus, NcclProtocol protocol) {
  const int scale = scale_of(placement);
  const double cap = nccl_constant(NcclTable::tree_cap, at(platform.generation), scale);
  bus = std::min(bus * nccl_constant(NcclTable::tree_share), graph.channels * cap);
  if (protocol == NcclProtocol::ll) {
    bus = std::min(bus / nccl_constant(NcclTable::tree_ll_divisor), ll_cap(platform, placement));
  } else if (protocol == NcclProtocol::ll128) {
    const double ll128 = nccl_constant(NcclTable::tree_ll128_cap, at(platform.generation), scale);
    bus = std::min(bus * nccl_constant(NcclTable::tree_ll128_share, std::min(scale, 1)),
                   graph.channels * ll128);
  }
  // The data from a node's children and to its parent go through the same GPU.
  if (placement.gpus == 1) bus *= nccl_constant(NcclTable::tree_chain_share);
  return bus;
}

// The switch adds up the data of all GPUs; the last head's share goes out beside its own.
double nvls_channel(const NcclPlatform& platform, const NcclPlacement& placement,
                    const NcclQuery& call, const NcclGraph& graph, NcclAlgorithm algorithm) {
  const double gpus = static_cast<double>(placement.ranks) / placement.nodes;
  double inside = graph.inside *
                  nccl_constant(NcclTable::nvls_efficiency, at(platform.generation)) *
                  (graph.channels - 1) / graph.channels;
  inside *= row_of(call.kind).reduces_to_all() ? 2.0 : (gpus - 1) / gpus;
  if (algorithm == NcclAlgorithm::nvls) return std::min(inside, graph.between);
  const double between = graph.between * (placement.nodes == 2 ? 2.0 : 1.0);
  const double cap = nccl_constant(NcclTable::nvls_tree_cap, at(platform.version),
                                   at(platform.generation), scale_of(placement) - 1);
  return std::min({inside, between, cap});
}

// Algorithm bandwidth of one GB/s of bus bandwidth. NCCL does not convert gathers and scatters
// without a ring.
double converted(NcclAlgorithm algorithm, CollectiveKind kind, int ranks) {
  if (algorithm != NcclAlgorithm::ring && is_gather_or_scatter(kind)) return 1.0;
  if (algorithm == NcclAlgorithm::tree) return 0.5;
  const int passes = row_of(kind).ring_passes();
  return ranks / (passes > 0 ? passes * (ranks - 1.0) : ranks);
}

}  // namespace

double latency_us(const NcclPlatform& platform, const NcclPlacement& placement,
                  const NcclQuery& call, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const double base = nccl_constant(NcclTable::base_latency, at(algorithm), at(protocol));
  const double near_hop = hop(NcclHop::nvlink, algorithm, protocol);
  const double far_hop = hop_between(placement, algorithm, protocol);
  const int depth = levels(placement.nodes);
  switch (algorithm) {
    case NcclAlgorithm::ring:
      return base + ring_latency(platform, placement, call.kind, protocol);
    case NcclAlgorithm::tree: {
      const int chain = placement.ranks / placement.nodes - 1;
      return base + 2 * (chain * near_hop + depth * far_hop);
    }
    case NcclAlgorithm::nvls:
      return base + near_hop + (placement.nodes > 1 ? far_hop : 0.0);
    case NcclAlgorithm::nvls_tree:
      return base + near_hop + 2 * depth * far_hop;
    case NcclAlgorithm::pat:
      break;
  }
  return base + depth * far_hop / nccl_constant(NcclTable::pat_hops) +
         placement.ranks * nccl_constant(NcclTable::pat_per_rank);
}

double algorithm_bandwidth(const NcclPlatform& platform, const NcclPlacement& placement,
                           const NcclQuery& call, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const NcclGraph graph = graph_of(algorithm, platform, placement);
  double bus = graph.channels * (placement.nodes <= 2 ? graph.inside : graph.between);
  switch (algorithm) {
    case NcclAlgorithm::ring:
      bus = ring_bandwidth(platform, placement, graph, bus, protocol);
      break;
    case NcclAlgorithm::tree:
      bus = tree_bandwidth(platform, placement, graph, bus, protocol);
      break;
    case NcclAlgorithm::nvls:
    case NcclAlgorithm::nvls_tree:
      bus = graph.channels * nvls_channel(platform, placement, call, graph, algorithm);
      break;
    case NcclAlgorithm::pat:
      bus *= nccl_constant(NcclTable::pat_share);
      break;
  }
  return bus * converted(algorithm, call.kind, placement.ranks);
}

}  // namespace shardsim
