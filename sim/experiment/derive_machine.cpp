#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

#include "scenarios/nccl_platform.hpp"
#include "sim/experiment/derive.hpp"

namespace shardsim {

namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

Link link_of(const LinkSpec& link) {
  return {.bytes_per_s = link.bandwidth_gb_per_s.times(kGiga),
          .latency_s = link.latency_us.times(kMicro)};
}

bool hits(const StragglerSpec& straggler, int rank, int node, int stage) {
  if (straggler.rank != kNotChosen) return straggler.rank == rank;
  if (straggler.node != kNotChosen) return straggler.node == node;
  return straggler.stage == stage;
}

std::vector<double> slowdown_of_ranks(const FaultSpec& spec, const Cluster& cluster,
                                      const MeshShape& mesh) {
  if (spec.stragglers.empty()) return {};
  std::vector<double> slowdown(static_cast<std::size_t>(mesh.size()), 1.0);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const int stage = mesh.place_of(rank).pp;
    for (const StragglerSpec& straggler : spec.stragglers) {
      if (!hits(straggler, rank, cluster.node_of(rank), stage)) continue;
      slowdown[static_cast<std::size_t>(rank)] *= straggler.slowdown;
    }
  }
  return slowdown;
}

LinkTier link_tier_of(const LinkPlaceSpec& place) {
  return place.is_inside() ? LinkTier::intra_node : LinkTier::inter_node;
}

int faulty_node(const LinkPlaceSpec& place) {
  return place.node == kNotChosen ? kAllNodes : static_cast<int>(place.node);
}

// The faults that make steps slower, by ranks and nodes; null if there are none.
std::shared_ptr<const MachineFaults> faults_of(const FaultSpec& spec, const Cluster& cluster,
                                               const MeshShape& mesh) {
  ++derivations().faults;
  if (!spec.slows_steps()) return nullptr;
  auto faults = std::make_shared<MachineFaults>();
  faults->slowdown = slowdown_of_ranks(spec, cluster, mesh);
  for (const SlowLinkSpec& link : spec.slow_links) {
    faults->slow_links.push_back({.tier = link_tier_of(link.place),
                                  .node = faulty_node(link.place),
                                  .bandwidth_factor = link.bandwidth_factor,
                                  .added_latency_s = link.added_latency_us * kMicro});
  }
  for (const FlappingLinkSpec& link : spec.flapping_links) {
    faults->flapping_links.push_back({.tier = link_tier_of(link.place),
                                      .node = faulty_node(link.place),
                                      .down = Time::from_seconds(link.down_s),
                                      .period = Time::from_seconds(link.period_s),
                                      .phase = Time::from_seconds(link.phase_s)});
  }
  return faults;
}

}  // namespace

Cluster cluster_of(const SystemSpec& system) {
  ++derivations().clusters;
  Cluster cluster;
  cluster.name = system.name;
  cluster.num_nodes = static_cast<int>(system.nodes);
  cluster.gpus_per_node = static_cast<int>(system.gpus_per_node);
  cluster.intra_node = link_of(system.intra_node);
  cluster.inter_node = link_of(system.inter_node);
  cluster.nics_per_node = static_cast<int>(system.network.nics_per_node);
  // One pod of all nodes is the same as none.
  cluster.nodes_per_pod = static_cast<int>(std::min(system.network.nodes_per_pod, system.nodes));
  cluster.oversubscription = system.network.oversubscription;
  if (system.network.is_nccl()) {
    cluster.nccl = std::make_shared<const NcclPlatform>(nccl_platform_of(system));
  }
  Device& device = cluster.device;
  device.name = system.device.name;
  device.memory_bytes = system.device.memory_bytes;
  device.memory_bytes_per_s = system.device.memory_bandwidth_gb_per_s.times(kGiga);
  device.memory_efficiency = system.device.memory_efficiency;
  device.matmul_efficiency = system.device.matmul_efficiency;
  device.launch_s = system.device.kernel_launch_us.times(kMicro);
  device.host_bytes_per_s = system.device.host_bandwidth_gb_per_s.times(kGiga);
  if (system.kernel_model == "shapes") {
    device.kernels = find_kernel_constants(system.device.kernels);
    if (system.overlap_slows_computing) {
      device.slowdown_beside_collectives = device.kernels->beside_communication.value;
    }
  }
  device.software = find_software(system.software);
  device.host_s_per_kernel = system.host_us_per_kernel.times(kMicro);
  device.host_s_per_call = system.host_us_per_call.times(kMicro);
  device.host_waits_for_kernels = system.cuda_launch_blocking;
  for (const DType precision :
       {DType::fp64, DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3}) {
    device.peak_flops_per_s.at(static_cast<std::size_t>(precision)) =
        system.device.peak_tflops.of(precision).times(kTera);
  }
  return cluster;
}

FiberOptions fiber_options_of(const Scenario& scenario, const Cluster& cluster,
                              const MeshShape& mesh) {
  FiberOptions options;
  options.cluster = cluster;
  options.cluster.device.attention_drops = attention_drops(scenario.training);
  options.cluster.faults = faults_of(scenario.faults, cluster, mesh);
  options.has_data = scenario.execution.tensors == TensorMode::real;
  options.reduction_order = scenario.execution.reduction_order;
  options.buffered_sends = scenario.execution.buffered_sends;
  options.all_reduce_algorithm = scenario.execution.all_reduce_algorithm;
  return options;
}

}  // namespace shardsim
