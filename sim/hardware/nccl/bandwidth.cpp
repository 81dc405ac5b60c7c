#include <algorithm>

#include "sim/hardware/nccl/cost.hpp"
#include "sim/hardware/nccl/graph.hpp"

namespace shardsim {

namespace {

using Kind = CollectiveKind;

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
  inside *= call.kind == Kind::all_reduce ? 2.0 : (gpus - 1) / gpus;
  if (algorithm == NcclAlgorithm::nvls) return std::min(inside, graph.between);
  const double between = graph.between * (placement.nodes == 2 ? 2.0 : 1.0);
  const double cap = nccl_constant(NcclTable::nvls_tree_cap, at(platform.version),
                                   at(platform.generation), scale_of(placement) - 1);
  return std::min({inside, between, cap});
}

// Algorithm bandwidth of one GB/s of bus bandwidth. NCCL does not convert gathers and scatters
// without a ring.
double converted(NcclAlgorithm algorithm, Kind kind, int ranks) {
  if (algorithm != NcclAlgorithm::ring && is_gather_or_scatter(kind)) return 1.0;
  if (algorithm == NcclAlgorithm::tree) return 0.5;
  const double steps = kind == Kind::all_reduce     ? 2.0 * (ranks - 1)
                       : is_gather_or_scatter(kind) ? ranks - 1.0
                                                    : ranks;
  return ranks / steps;
}

}  // namespace

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
