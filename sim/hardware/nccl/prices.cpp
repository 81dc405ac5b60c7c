#include "sim/hardware/nccl/prices.hpp"

#include <algorithm>

namespace shardsim {

namespace {

bool is_tree(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::tree || algorithm == NcclAlgorithm::nvls_tree;
}
bool is_not_tree(NcclAlgorithm algorithm) { return !is_tree(algorithm); }
bool is_plain_ring(NcclAlgorithm algorithm) { return algorithm == NcclAlgorithm::ring; }
bool is_plain_tree(NcclAlgorithm algorithm) { return algorithm == NcclAlgorithm::tree; }

// Ranks of the fullest node that send through one NIC.
double peers_per_nic(const GroupLayout& layout) {
  return static_cast<double>(layout.max_per_node) / layout.nics;
}

bool is_empty(CollectiveKind kind) { return row_of(kind).path == CollectivePath::none; }

// The algorithms that may serve a request; null: all. A barrier has no tree for its traffic; nor
// has a group without a tree.
NcclAllowed allowed(const CollectiveRequest& request, const NcclTuning& tuning) {
  // A barrier uses a tree if only trees are left; its traffic is counted as a ring's.
  if (is_empty(request.kind)) return tuning.offers(is_not_tree) ? is_not_tree : nullptr;
  if (!row_of(request.kind).reduces_to_all() || request.tree == nullptr) return is_not_tree;
  if (request.algorithm == Algorithm::ring) return is_plain_ring;
  return request.algorithm == Algorithm::tree ? is_plain_tree : nullptr;
}

}  // namespace

double corrected_us(const NcclOverrides& overrides, const NcclPrice& price) {
  const NcclCorrection& correction = price.far ? overrides.between : overrides.inside;
  return price.latency_us + correction.added_latency_us +
         price.transfer_us / correction.bandwidth_factor;
}

NcclPrices::NcclPrices(const Cluster& cluster) : cluster_(cluster), platform_(*cluster.nccl) {
  check(platform_);
}

NcclPrice NcclPrices::collective(const CollectiveRequest& request) {
  switch (row_of(request.kind).path) {
    case CollectivePath::pairs:
      return exchanged(request, peers_per_nic(*request.layout));
    case CollectivePath::star:
      return exchanged(request, 1.0);
    default:
      return chosen(request);
  }
}

NcclPrice NcclPrices::message(int source, int destination, std::int64_t bytes) const {
  const int from = cluster_.node_of(source);
  const int to = cluster_.node_of(destination);
  const bool far = from != to;
  auto size = static_cast<double>(bytes);
  if (cluster_.pod_of(from) != cluster_.pod_of(to)) size *= cluster_.oversubscription;
  const NcclExchange exchange{
      .near_bytes = far ? 0.0 : size, .far_bytes = far ? size : 0.0, .far = far};
  const double peers = static_cast<double>(cluster_.gpus_per_node) / cluster_.nics();
  return {.latency_us = exchange_latency_us(exchange),
          .transfer_us = exchange_transfer_us(platform_, exchange, peers),
          .far = far};
}

double NcclPrices::oversubscription(const GroupLayout& layout) const {
  if (!layout.spans_pods) return 1.0;
  return cluster_.oversubscription;
}

// largest_chunk is the chunk of a pair, or of a member and the root.
NcclPrice NcclPrices::exchanged(const CollectiveRequest& request, double peers) const {
  const GroupLayout& layout = *request.layout;
  const auto chunk = static_cast<double>(request.largest_chunk);
  const double far_peers = layout.num_nodes > 1 ? layout.size() - layout.rails : 0;
  const NcclExchange exchange{.near_bytes = chunk * (layout.max_per_node - 1),
                              .far_bytes = chunk * far_peers * oversubscription(layout),
                              .far = layout.num_nodes > 1};
  return {.latency_us = exchange_latency_us(exchange),
          .transfer_us = exchange_transfer_us(platform_, exchange, peers),
          .far = exchange.far};
}

NcclPrice NcclPrices::chosen(const CollectiveRequest& request) {
  const GroupLayout& layout = *request.layout;
  CollectiveKind kind = request.kind;
  std::int64_t bytes = request.bytes;
  if (is_empty(kind)) {
    kind = collective::kAllReduce;
    bytes = 4;
  } else if (row_of(kind).ring_passes() == 1) {
    // NCCL's members all have equal chunks; uneven ones are padded.
    bytes = std::max(bytes, request.largest_chunk * layout.size());
  }
  const NcclTuning& tuning = tuning_of(layout, kind);
  const NcclOption option = tuning.choice(bytes, allowed(request, tuning));
  const bool tree = is_tree(option.algorithm) && !is_empty(request.kind);
  return {.latency_us = option.latency_us,
          .transfer_us = (option.time_us - option.latency_us) * oversubscription(layout),
          .algorithm = tree ? Algorithm::tree : Algorithm::ring,
          .far = layout.num_nodes > 1};
}

const NcclTuning& NcclPrices::tuning_of(const GroupLayout& layout, CollectiveKind kind) {
  const std::tuple key{layout.size(), layout.num_nodes, layout.rails, layout.nics, kind};
  auto found = tunings_.find(key);
  if (found == tunings_.end()) {
    NcclQuery call;
    call.kind = kind;
    found = tunings_.emplace(key, NcclTuning(platform_, placement_of(layout), call)).first;
  }
  return found->second;
}

// --- Sends and receives ------------------------------------------------------------------------

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

}  // namespace shardsim
