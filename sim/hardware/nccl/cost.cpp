#include "sim/hardware/nccl/cost.hpp"

#include "sim/hardware/nccl/graph.hpp"
#include "sim/hardware/nccl/tuning.hpp"

namespace shardsim {

std::vector<NcclOption> nccl_options(const NcclPlatform& platform, const NcclPlacement& placement,
                                     const NcclQuery& call) {
  return NcclTuning(platform, placement, call).options(call.bytes);
}

NcclOption nccl_choice(const NcclPlatform& platform, const NcclPlacement& placement,
                       const NcclQuery& call) {
  return NcclTuning(platform, placement, call).choice(call.bytes);
}

double bus_bandwidth(CollectiveKind kind, int ranks, std::int64_t bytes, double time_us) {
  const double others = (ranks - 1.0) / ranks;
  double share = 1.0;
  if (kind == CollectiveKind::all_reduce) share = 2.0 * others;
  if (kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather ||
      kind == CollectiveKind::all_to_all) {
    share = others;
  }
  return static_cast<double>(bytes) * share / (kBytesPerUs * time_us);
}

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

}  // namespace shardsim
