#include "sim/hardware/nccl/cost.hpp"

#include "sim/hardware/nccl/graph.hpp"

namespace shardsim {

namespace {

// Multimem instructions of NVLink SHARP: sums of integers and floats, extrema of those up to 16
// bit.
const char* no_reduction_in_the_switch(const NcclQuery& call) {
  if (!row_of(call.kind).reduces) return nullptr;
  if (call.dtype == DType::fp8_e4m3) return "NVSwitch does not reduce fp8";
  if (call.reduction == NcclReduction::product) return "NVSwitch does not multiply";
  if (call.reduction == NcclReduction::average) return "NVSwitch does not average";
  if (call.reduction != NcclReduction::sum &&
      (call.dtype == DType::fp32 || call.dtype == DType::fp64)) {
    return "NVSwitch only sums fp32 and fp64";
  }
  return nullptr;
}

const char* no_nvls(const NcclPlatform& platform, const NcclPlacement& placement,
                    const NcclQuery& call) {
  if (nccl_constant(NcclTable::nvls_efficiency, at(platform.generation)) == 0.0) {
    return "NVLink SHARP needs Hopper or later";
  }
  if (!platform.nvswitch) return "NVLink SHARP needs NVSwitch";
  if (placement.gpus < nccl_constant(NcclTable::nvls_fewest_gpus, at(platform.version))) {
    return "too few GPUs of a node take part";
  }
  // With one channel nothing is left of (channels - 1) / channels.
  if (nvls_graph(platform, placement).channels < 2) return "fewer than two channels are found";
  return no_reduction_in_the_switch(call);
}

const char* no_algorithm(const NcclPlatform& platform, const NcclPlacement& placement,
                         const NcclQuery& call, NcclAlgorithm algorithm) {
  const bool to_all = row_of(call.kind).reduces_to_all();
  switch (algorithm) {
    case NcclAlgorithm::ring:
      return nullptr;
    case NcclAlgorithm::tree:
      return to_all ? nullptr : "a tree serves all_reduce only";
    case NcclAlgorithm::nvls:
      if (!to_all && !is_gather_or_scatter(call.kind)) {
        return "NVLS serves all_reduce, all_gather and reduce_scatter only";
      }
      if (placement.nodes > 1) return "between nodes NVLS needs SHARP in the network";
      if (!to_all && placement.gpus > nccl_constant(NcclTable::nvls_most_heads)) {
        return "with more GPUs than heads NVLS serves all_reduce only";
      }
      return no_nvls(platform, placement, call);
    case NcclAlgorithm::nvls_tree:
      if (!to_all) return "NVLSTree serves all_reduce only";
      if (placement.nodes == 1) return "NVLSTree serves several nodes only";
      return no_nvls(platform, placement, call);
    case NcclAlgorithm::pat:
      break;
  }
  if (!is_gather_or_scatter(call.kind)) return "PAT serves all_gather and reduce_scatter only";
  return placement.one_gpu_per_node() ? nullptr : "PAT serves one GPU per node only";
}

const char* unserved(const NcclPlatform& platform, const NcclPlacement& placement,
                     const NcclQuery& call, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const bool has_protocols = algorithm == NcclAlgorithm::ring || algorithm == NcclAlgorithm::tree;
  if (!has_protocols && protocol != NcclProtocol::simple) {
    return "the algorithm has the protocol Simple only";
  }
  if (protocol == NcclProtocol::ll128 && placement.nodes > 1 && !platform.nic_beside_gpu) {
    return "LL128 needs a NIC beside the GPU";
  }
  return no_algorithm(platform, placement, call, algorithm);
}

}  // namespace

int channels_used(const NcclPlatform& platform, const NcclPlacement& placement,
                  const NcclOption& option, std::int64_t bytes) {
  int channels = executed_channels(platform, placement);
  double per_channel = nccl_constant(NcclTable::threads, at(option.protocol)) *
                       nccl_constant(NcclTable::thread_bytes, at(option.protocol));
  if (option.algorithm == NcclAlgorithm::ring && option.protocol == NcclProtocol::ll) {
    per_channel *= placement.ranks;
  }
  while (channels > 1 && static_cast<double>(bytes) < channels * per_channel) --channels;
  return channels;
}

const char* why_unavailable(const NcclPlatform& platform, const NcclPlacement& placement,
                            const NcclQuery& call, NcclAlgorithm algorithm, NcclProtocol protocol) {
  const char* why = unserved(platform, placement, call, algorithm, protocol);
  if (why != nullptr) return why;
  return platform.overrides.selection.why_left_out(call.kind, algorithm, protocol);
}

}  // namespace shardsim
