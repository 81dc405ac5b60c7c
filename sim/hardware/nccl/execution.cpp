#include "sim/hardware/nccl/execution.hpp"

#include <algorithm>

namespace shardsim {

namespace {

constexpr double kMegabyte = 1e6;

double constant(const NcclPlatform& platform, NcclWay way, NcclInside which) {
  return nccl_constant(NcclTable::inside, at(platform.generation), at(way), at(which));
}

// `half`: in MB.
double ramp(double us, double half, double bytes) {
  return us * bytes / (bytes + half * kMegabyte);
}

double latency(const NcclPlatform& platform, NcclWay way, int steps, double bytes) {
  return constant(platform, way, NcclInside::launch) +
         steps * constant(platform, way, NcclInside::step) +
         ramp(constant(platform, way, NcclInside::ramp),
              constant(platform, way, NcclInside::half_ramp), bytes);
}

double copy_us(const NcclPlatform& platform, NcclWay way, double own_bytes) {
  return constant(platform, way, NcclInside::own) * own_bytes / kMegabyte;
}

}  // namespace

NcclWay way_of(NcclAlgorithm algorithm) {
  const bool switched = algorithm == NcclAlgorithm::nvls || algorithm == NcclAlgorithm::nvls_tree;
  return switched ? NcclWay::nvls : NcclWay::ring;
}

NcclTime time_inside(const NcclPlatform& platform, const NcclPlacement& placement,
                     const NcclQuery& call, NcclWay way, double slowdown) {
  const auto bytes = static_cast<double>(call.bytes);
  const NcclAlgorithm algorithm = way == NcclWay::nvls ? NcclAlgorithm::nvls : NcclAlgorithm::ring;
  const double bandwidth =
      algorithm_bandwidth(platform, placement, call, algorithm, NcclProtocol::simple);
  // A chain from or to a root goes along the ring once, and nobody copies a part of its own.
  const int passes = row_of(call.kind).ring_passes();
  const int steps = (passes == 0 ? 1 : passes) * (placement.ranks - 1);
  const double own = passes == 0 ? 0.0 : bytes / placement.ranks;
  const double wire =
      bytes / (kBytesPerUs * bandwidth * constant(platform, way, NcclInside::efficiency));
  return {.latency_us = slowdown * latency(platform, way, steps, bytes),
          .transfer_us = slowdown * (wire + copy_us(platform, way, own))};
}

NcclTime time_between(const NcclOption& option, std::int64_t bytes) {
  const double filling =
      ramp(nccl_constant(NcclTable::ramp_between, 0), nccl_constant(NcclTable::ramp_between, 1),
           static_cast<double>(bytes));
  return {.latency_us = option.latency_us + filling,
          .transfer_us = option.time_us - option.latency_us};
}

NcclTime exchange_time(const NcclPlatform& platform, const NcclExchange& exchange,
                       double peers_per_nic) {
  const double links =
      nvlink_bandwidth(platform) * constant(platform, NcclWay::exchange, NcclInside::efficiency);
  const double near_us = exchange.near_bytes == 0.0
                             ? 0.0
                             : exchange.near_bytes / (kBytesPerUs * links) +
                                   copy_us(platform, NcclWay::exchange, exchange.own_bytes);
  if (!exchange.far) {
    const double bytes = exchange.near_bytes + exchange.own_bytes;
    return {.latency_us = latency(platform, NcclWay::exchange, exchange.near_peers, bytes),
            .transfer_us = near_us};
  }
  const double share = nic_bandwidth(platform) / std::max(1.0, peers_per_nic);
  return {
      .latency_us = nccl_constant(NcclTable::launch) + nccl_constant(NcclTable::point_to_point_hop),
      .transfer_us = std::max(near_us, exchange.far_bytes / (kBytesPerUs * share))};
}

}  // namespace shardsim
