#include <algorithm>
#include <bit>

#include "sim/hardware/nccl/cost.hpp"

namespace shardsim {

namespace {

using Kind = CollectiveKind;

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

double ring_latency(const NcclPlatform& platform, const NcclPlacement& placement, Kind kind,
                    NcclProtocol protocol) {
  if (kind == Kind::broadcast || kind == Kind::reduce) {
    return broadcast_latency(placement, protocol);
  }
  const int passes = kind == Kind::all_reduce ? 2 : 1;
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

}  // namespace shardsim
