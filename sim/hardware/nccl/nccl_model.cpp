#include <algorithm>
#include <map>
#include <tuple>

#include "sim/hardware/nccl/point_to_point.hpp"
#include "sim/hardware/nccl/tuning.hpp"
#include "sim/hardware/network_model.hpp"

namespace shardsim {

namespace {

using Kind = CollectiveKind;

constexpr double kUsPerS = 1e6;

Time time_of(double microseconds) { return Time::from_seconds(microseconds / kUsPerS); }

bool is_tree(NcclAlgorithm algorithm) {
  return algorithm == NcclAlgorithm::tree || algorithm == NcclAlgorithm::nvls_tree;
}
bool is_not_tree(NcclAlgorithm algorithm) { return !is_tree(algorithm); }
bool is_plain_ring(NcclAlgorithm algorithm) { return algorithm == NcclAlgorithm::ring; }
bool is_plain_tree(NcclAlgorithm algorithm) { return algorithm == NcclAlgorithm::tree; }

class NcclModel final : public NetworkModel {
 public:
  explicit NcclModel(const Cluster& cluster) : cluster_(cluster), platform_(*cluster.nccl) {
    check(platform_);
  }

  bool depends_on_order() const override { return false; }

  CollectivePrice collective(const CollectiveRequest& request, Time) override {
    const GroupLayout& layout = *request.layout;
    if (layout.size() == 1) return {};
    switch (request.kind) {
      case Kind::all_to_all:
        return {.duration = time_of(exchanged(request, peers_per_nic(layout)))};
      case Kind::gather:
      case Kind::scatter:
        return {.duration = time_of(exchanged(request, 1.0))};
      default:
        return chosen(request);
    }
  }

  Time transfer(int source, int destination, std::int64_t bytes, Time) override {
    if (source == destination) return Time();
    const int from = cluster_.node_of(source);
    const int to = cluster_.node_of(destination);
    const bool far = from != to;
    auto size = static_cast<double>(bytes);
    if (cluster_.pod_of(from) != cluster_.pod_of(to)) size *= cluster_.oversubscription;
    const NcclExchange exchange{
        .near_bytes = far ? 0.0 : size, .far_bytes = far ? size : 0.0, .far = far};
    const double peers = static_cast<double>(cluster_.gpus_per_node) / cluster_.nics();
    return time_of(exchange_us(platform_, exchange, peers));
  }

 private:
  // Ranks of the fullest node that send through one NIC.
  static double peers_per_nic(const GroupLayout& layout) {
    return static_cast<double>(layout.max_per_node) / layout.nics;
  }

  [[nodiscard]] double oversubscription(const GroupLayout& layout) const {
    return layout.spans_pods ? cluster_.oversubscription : 1.0;
  }

  // largest_chunk is of a pair, or of a member and the root.
  [[nodiscard]] double exchanged(const CollectiveRequest& request, double peers) const {
    const GroupLayout& layout = *request.layout;
    const auto chunk = static_cast<double>(request.largest_chunk);
    const double far_peers = layout.num_nodes > 1 ? layout.size() - layout.rails : 0;
    const NcclExchange exchange{.near_bytes = chunk * (layout.max_per_node - 1),
                                .far_bytes = chunk * far_peers * oversubscription(layout),
                                .far = layout.num_nodes > 1};
    return exchange_us(platform_, exchange, peers);
  }

  [[nodiscard]] CollectivePrice chosen(const CollectiveRequest& request) {
    const GroupLayout& layout = *request.layout;
    Kind kind = request.kind;
    std::int64_t bytes = request.bytes;
    if (kind == Kind::barrier || kind == Kind::split) {
      kind = Kind::all_reduce;
      bytes = 4;
    } else if (kind == Kind::reduce_scatter || kind == Kind::all_gather) {
      // NCCL's members all have the same; uneven ones are filled up.
      bytes = std::max(bytes, request.largest_chunk * layout.size());
    }
    const NcclOption option = tuning_of(layout, kind).choice(bytes, allowed(request));
    const double transfer_us = (option.time_us - option.latency_us) * oversubscription(layout);
    return {.duration = time_of(option.latency_us + transfer_us),
            .algorithm = is_tree(option.algorithm) ? Algorithm::tree : Algorithm::ring};
  }

  // A barrier has no tree to be counted along; nor has a group to which none is offered.
  [[nodiscard]] static bool (*allowed(const CollectiveRequest& request))(NcclAlgorithm) {
    if (request.kind != Kind::all_reduce || request.tree == nullptr) return is_not_tree;
    if (request.algorithm == Algorithm::ring) return is_plain_ring;
    return request.algorithm == Algorithm::tree ? is_plain_tree : nullptr;
  }

  // One for all groups that lie alike.
  const NcclTuning& tuning_of(const GroupLayout& layout, Kind kind) {
    const std::tuple key{layout.size(), layout.num_nodes, layout.rails, layout.nics, kind};
    auto found = tunings_.find(key);
    if (found == tunings_.end()) {
      NcclQuery call;
      call.kind = kind;
      found = tunings_.emplace(key, NcclTuning(platform_, placement_of(layout), call)).first;
    }
    return found->second;
  }

  Cluster cluster_;
  NcclPlatform platform_;
  std::map<std::tuple<int, int, int, int, Kind>, NcclTuning> tunings_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_nccl_model(const Cluster& cluster) {
  return std::make_unique<NcclModel>(cluster);
}

std::unique_ptr<NetworkModel> make_network_model(const Cluster& cluster) {
  return cluster.nccl == nullptr ? make_alpha_beta_model(cluster) : make_nccl_model(cluster);
}

}  // namespace shardsim
