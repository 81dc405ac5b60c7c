#include "sim/hardware/nccl/point_to_point.hpp"

#include <algorithm>

namespace shardsim {

double exchange_latency_us(const NcclExchange& exchange) {
  const NcclHop where = exchange.far ? NcclHop::net : NcclHop::nvlink;
  return nccl_constant(NcclTable::launch) + nccl_constant(NcclTable::point_to_point_hop, at(where));
}

double exchange_transfer_us(const NcclPlatform& platform, const NcclExchange& exchange,
                            double peers_per_nic) {
  double transfer_us = 0.0;
  if (exchange.near_bytes > 0.0) {
    transfer_us = exchange.near_bytes / (kBytesPerUs * nvlink_bandwidth(platform));
  }
  if (exchange.far_bytes > 0.0) {
    const double share = nic_bandwidth(platform) / std::max(1.0, peers_per_nic);
    transfer_us = std::max(transfer_us, exchange.far_bytes / (kBytesPerUs * share));
  }
  return transfer_us;
}

double exchange_us(const NcclPlatform& platform, const NcclExchange& exchange,
                   double peers_per_nic) {
  return exchange_latency_us(exchange) + exchange_transfer_us(platform, exchange, peers_per_nic);
}

double message_us(const NcclPlatform& platform, std::int64_t bytes, bool far) {
  const auto size = static_cast<double>(bytes);
  return exchange_us(
      platform, {.near_bytes = far ? 0.0 : size, .far_bytes = far ? size : 0.0, .far = far}, 1.0);
}

double all_to_all_us(const NcclPlatform& platform, const NcclPlacement& placement,
                     std::int64_t bytes_per_pair, int most_on_a_node) {
  // A member of a full node has the most near peers, one of the emptiest node the most far ones.
  const auto pair = static_cast<double>(bytes_per_pair);
  const NcclExchange exchange{.near_bytes = pair * (most_on_a_node - 1),
                              .far_bytes = pair * (placement.ranks - placement.gpus),
                              .far = placement.nodes > 1};
  return exchange_us(platform, exchange, static_cast<double>(most_on_a_node) / placement.nics);
}

}  // namespace shardsim
