#pragma once

#include <cstdint>

#include "sim/kernel/dtype.hpp"

#include "sim/hardware/collective.hpp"
#include "sim/hardware/nccl/platform.hpp"

// NCCL's cost model as a pure function: what each algorithm with each protocol would take, which of
// them are available, and which NCCL chooses. all_reduce, reduce_scatter, all_gather, broadcast and
// reduce; the others are in prices.hpp. Source: the tables of constants.hpp, and the
// formulas of NCCL's src/graph/tuning.cc that each function names. CollNet (SHARP in the network)
// is off unless a user turns it on, and is not here.
namespace shardsim {

enum class NcclReduction : std::uint8_t { sum, minimum, maximum, product, average };

struct NcclQuery {
  CollectiveKind kind = collective::kAllReduce;
  std::int64_t bytes = 0;  ///< The full buffer: of all_gather and reduce_scatter that of all ranks.
  DType dtype = DType::bf16;
  NcclReduction reduction = NcclReduction::sum;  ///< For kinds that reduce.
};

/// The two halves of an all_reduce: each rank has a part.
[[nodiscard]] constexpr bool is_gather_or_scatter(CollectiveKind kind) {
  return row_of(kind).ring_passes() == 1;
}

/// One algorithm with one protocol.
struct NcclOption {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  const char* unavailable = nullptr;  ///< Why not; null where it is available.
  int channels = 0;                   ///< As the search found them, with the speeds below.
  double channel_inside = 0.0;        ///< GB/s
  double channel_between = 0.0;       ///< GB/s
  double latency_us = 0.0;
  double bandwidth = 0.0;  ///< Algorithm bandwidth in GB/s: bytes / (time - latency).
  double time_us = 0.0;    ///< latency + bytes / bandwidth
  double cost_us = 0.0;    ///< The time that NCCL compares: time_us, but for fp8.
};

/// Channels that a choice uses for so many bytes: fewer while bytes < channels x threads x bytes
/// per thread.
[[nodiscard]] int channels_used(const NcclPlatform& platform, const NcclPlacement& placement,
                                const NcclOption& option, std::int64_t bytes);

/// Parts of NcclTuning::options, for one option. Null: available.
[[nodiscard]] const char* why_unavailable(const NcclPlatform& platform,
                                          const NcclPlacement& placement, const NcclQuery& call,
                                          NcclAlgorithm algorithm, NcclProtocol protocol);
[[nodiscard]] double latency_us(const NcclPlatform& platform, const NcclPlacement& placement,
                                const NcclQuery& call, NcclAlgorithm algorithm,
                                NcclProtocol protocol);
/// Algorithm bandwidth for large buffers, GB/s: before the correction by size.
[[nodiscard]] double algorithm_bandwidth(const NcclPlatform& platform,
                                         const NcclPlacement& placement, const NcclQuery& call,
                                         NcclAlgorithm algorithm, NcclProtocol protocol);

}  // namespace shardsim
