#include "sim/hardware/nccl/prices.hpp"

#include <algorithm>

namespace shardsim {

namespace {

bool is_tree(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::tree || algorithm == NcclAlgorithm::nvls_tree;
}
bool is_not_tree(NcclAlgorithm algorithm) { return !is_tree(algorithm); }
bool is_switched(NcclAlgorithm algorithm) { return way_of(algorithm) == NcclWay::nvls; }
bool is_not_switched(NcclAlgorithm algorithm) { return !is_switched(algorithm); }
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
      .near_bytes = far ? 0.0 : size, .near_peers = 1, .far_bytes = far ? size : 0.0, .far = far};
  const double peers = static_cast<double>(cluster_.gpus_per_node) / cluster_.nics();
  return {exchange_time(platform_, exchange, peers), Algorithm::ring, far};
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
                              .own_bytes = chunk,
                              .near_peers = layout.max_per_node - 1,
                              .far_bytes = chunk * far_peers * oversubscription(layout),
                              .far = layout.num_nodes > 1};
  return {exchange_time(platform_, exchange, peers), Algorithm::ring, exchange.far};
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
  const Tunings& tunings = tunings_of(layout, kind);
  const NcclOption option = tunings.asked.choice(bytes, allowed(request, tunings.asked));
  const bool tree = is_tree(option.algorithm) && !is_empty(request.kind);
  NcclPrice price{executed(option, tunings, kind, bytes, layout),
                  tree ? Algorithm::tree : Algorithm::ring, layout.num_nodes > 1};
  price.transfer_us *= oversubscription(layout);
  return price;
}

NcclTime NcclPrices::executed(const NcclOption& option, const Tunings& tunings, CollectiveKind kind,
                              std::int64_t bytes, const GroupLayout& layout) const {
  if (layout.num_nodes > 1) return time_between(option, bytes);
  NcclQuery call;
  call.kind = kind;
  call.bytes = bytes;
  const NcclWay way = way_of(option.algorithm);
  const NcclOption best =
      tunings.free.choice(bytes, way == NcclWay::nvls ? is_switched : is_not_switched);
  return time_inside(platform_, placement_of(layout), call, way, option.time_us / best.time_us);
}

const NcclPrices::Tunings& NcclPrices::tunings_of(const GroupLayout& layout, CollectiveKind kind) {
  const std::tuple key{layout.size(), layout.num_nodes, layout.rails, layout.nics, kind};
  auto found = tunings_.find(key);
  if (found == tunings_.end()) {
    NcclQuery call;
    call.kind = kind;
    const NcclPlacement placement = placement_of(layout);
    NcclPlatform free = platform_;
    free.overrides = {};
    found = tunings_
                .emplace(key, Tunings{NcclTuning(platform_, placement, call),
                                      NcclTuning(free, placement, call)})
                .first;
  }
  return found->second;
}

}  // namespace shardsim
