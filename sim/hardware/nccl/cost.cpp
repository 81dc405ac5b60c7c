#include "sim/hardware/nccl/cost.hpp"

#include <bit>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/graph.hpp"

namespace shardsim {

namespace {

using Kind = CollectiveKind;

// bytes / (GB/s x 1000) is microseconds.
constexpr double kBytesPerUs = 1000.0;

// Trees do not follow the model at middle sizes; NCCL multiplies their bandwidth by a table. No
// factor below 64 bytes and past the table's end.
double tree_correction(NcclProtocol protocol, std::int64_t bytes) {
  const int column = std::bit_width(static_cast<std::uint64_t>(bytes) / 64) - 1;
  if (column < 0 || column >= nccl_table(NcclTable::tree_correction).size[1]) return 1.0;
  return nccl_constant(NcclTable::tree_correction, at(protocol), column);
}

// Whether a ring between nodes has reached the sizes at which its latency grows.
bool on_plateau(const NcclPlatform& platform, const NcclPlacement& placement, std::int64_t bytes) {
  if (placement.nodes == 1) return false;
  const std::int64_t shares =
      std::int64_t{executed_channels(platform, placement)} * placement.ranks;
  const std::int64_t share = bytes / shares;
  return static_cast<double>(share) >= nccl_constant(NcclTable::plateau_bytes);
}

// A sum over many ranks in fp8 loses too much in a ring, which rounds at every hop.
bool avoids_ring(const NcclPlacement& placement, const NcclCall& call) {
  return call.dtype == DType::fp8_e4m3 &&
         (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter) &&
         placement.ranks > nccl_constant(NcclTable::fp8_ring_ranks);
}

NcclOption priced(const NcclPlatform& platform, const NcclPlacement& placement,
                  const NcclCall& call, NcclAlgorithm algorithm, NcclProtocol protocol) {
  NcclOption option{.algorithm = algorithm, .protocol = protocol};
  option.unavailable = why_unavailable(platform, placement, call, algorithm, protocol);
  if (option.unavailable != nullptr) return option;
  const NcclGraph graph = graph_of(algorithm, platform, placement);
  option.channels = graph.channels;
  option.channel_inside = graph.inside;
  option.channel_between = graph.between;
  option.latency_us = latency_us(platform, placement, call, algorithm, protocol);
  option.bandwidth = algorithm_bandwidth(platform, placement, call, algorithm, protocol);
  if (algorithm == NcclAlgorithm::tree) option.bandwidth *= tree_correction(protocol, call.bytes);
  const bool ring = algorithm == NcclAlgorithm::ring;
  if (ring && protocol == NcclProtocol::simple && call.kind == Kind::all_reduce &&
      on_plateau(platform, placement, call.bytes)) {
    option.latency_us *= nccl_constant(NcclTable::ring_plateau);
  }
  option.time_us =
      option.latency_us + static_cast<double>(call.bytes) / (kBytesPerUs * option.bandwidth);
  option.cost_us = option.time_us;
  if (ring && avoids_ring(placement, call)) {
    option.cost_us *= nccl_constant(NcclTable::fp8_ring_factor);
  }
  return option;
}

}  // namespace

std::vector<NcclOption> nccl_options(const NcclPlatform& platform, const NcclPlacement& placement,
                                     const NcclCall& call) {
  if (call.kind > Kind::all_gather && call.kind != Kind::broadcast && call.kind != Kind::reduce) {
    throw UsageError(
        "E0404", fmt::format("NCCL has no algorithms to choose from for {}", name_of(call.kind)),
        "price it as messages");
  }
  std::vector<NcclOption> options;
  for (int algorithm = 0; algorithm < kNcclAlgorithms; ++algorithm) {
    for (int protocol = 0; protocol < kNcclProtocols; ++protocol) {
      options.push_back(priced(platform, placement, call, static_cast<NcclAlgorithm>(algorithm),
                               static_cast<NcclProtocol>(protocol)));
    }
  }
  return options;
}

NcclOption nccl_choice(const NcclPlatform& platform, const NcclPlacement& placement,
                       const NcclCall& call) {
  const std::vector<NcclOption> options = nccl_options(platform, placement, call);
  const NcclOption* best = nullptr;
  for (const NcclOption& option : options) {
    if (option.unavailable != nullptr) continue;
    if (best == nullptr || option.cost_us < best->cost_us) best = &option;
  }
  return *best;
}

double bus_bandwidth(CollectiveKind kind, int ranks, std::int64_t bytes, double time_us) {
  const double others = (ranks - 1.0) / ranks;
  double share = 1.0;
  if (kind == Kind::all_reduce) share = 2.0 * others;
  if (kind == Kind::reduce_scatter || kind == Kind::all_gather || kind == Kind::all_to_all) {
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
