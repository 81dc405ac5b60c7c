#include <algorithm>
#include <bit>

#include "sim/hardware/network_model.hpp"

namespace shardsim {

namespace {

class AlphaBeta final : public NetworkModel {
 public:
  explicit AlphaBeta(const Cluster& cluster) : cluster_(cluster) {}

  bool depends_on_order() const override { return false; }
  bool depends_on_start() const override { return false; }

  CollectivePrice collective(const CollectiveRequest& request, Time) override {
    const GroupLayout& layout = *request.layout;
    if (layout.size() == 1) return {};
    CollectivePrice price{.duration = Time::from_seconds(ring_seconds(request)),
                          .algorithm = Algorithm::ring};
    if (row_of(request.kind).reduces_to_all() && request.tree != nullptr &&
        request.algorithm != Algorithm::ring) {
      const Time tree = Time::from_seconds(tree_seconds(request));
      if (request.algorithm == Algorithm::tree || tree < price.duration) {
        price = {.duration = tree, .algorithm = Algorithm::tree};
      }
    }
    return price;
  }

  Time transfer(int source, int destination, std::int64_t bytes, Time) override {
    if (source == destination) return Time();
    const bool near = cluster_.node_of(source) == cluster_.node_of(destination);
    const Link link = near ? inside(2) : cluster_.inter_node;
    return Time::from_seconds(link.latency_s + static_cast<double>(bytes) / link.bytes_per_s);
  }

 private:
  // The links of one GPU to the rest of some GPUs of a node. Without a switch there is one to each,
  // and a full mesh sends on all of them at once. In a torus they go to neighbours only, so there
  // this is a bound.
  [[nodiscard]] Link inside(int gpus) const {
    Link link = cluster_.intra_node;
    if (cluster_.pair_bytes_per_s.peek() > 0.0) {
      link.bytes_per_s = smaller_of(link.bytes_per_s, cluster_.pair_bytes_per_s.times(gpus - 1));
    }
    return link;
  }

  // The slowest hop of a ring through all members.
  [[nodiscard]] Link ring_link(const GroupLayout& layout) const {
    if (layout.num_nodes == 1) return inside(layout.size());
    Link link = cluster_.inter_node;
    link.bytes_per_s *= layout.rails;
    if (layout.max_per_node > 1) {
      const Link near = inside(std::max(layout.rails, 2));
      link.bytes_per_s = smaller_of(link.bytes_per_s, near.bytes_per_s);
      link.latency_s = larger_of(link.latency_s, near.latency_s);
    }
    return link;
  }

  [[nodiscard]] double ring_seconds(const CollectiveRequest& request) const {
    const GroupLayout& layout = *request.layout;
    const CollectiveRow& row = row_of(request.kind);
    if (row.path == CollectivePath::pairs) return all_to_all_seconds(request);
    const Link link = ring_link(layout);
    const double hops = layout.size() - 1;
    const auto seconds_of = [&link](std::int64_t bytes) {
      return static_cast<double>(bytes) / link.bytes_per_s;
    };
    switch (row.path) {
      case CollectivePath::ring:
        return row.ring_passes() * hops * (link.latency_s + seconds_of(request.largest_chunk));
      case CollectivePath::chain:
        return hops * link.latency_s + seconds_of(request.bytes);
      case CollectivePath::pairs:
        break;  // Above.
      case CollectivePath::star:
        return root_seconds(request);
      case CollectivePath::none:
        return link.latency_s * std::bit_width(static_cast<unsigned>(layout.size() - 1));
    }
    return 0.0;
  }

  // Chunks are per pair here; every member has the same number of near and far partners at most.
  [[nodiscard]] double all_to_all_seconds(const CollectiveRequest& request) const {
    const double near = request.layout->max_per_node - 1;
    const double far = request.layout->size() - request.layout->rails;
    const auto chunk = static_cast<double>(request.largest_chunk);
    const Link& outside = cluster_.inter_node;
    double seconds = 0.0;
    if (near > 0.0) {
      const Link link = inside(request.layout->max_per_node);
      seconds = near * (link.latency_s + chunk / link.bytes_per_s);
    }
    if (request.layout->num_nodes > 1) {
      seconds += far * (outside.latency_s + chunk / outside.bytes_per_s);
    }
    return seconds;
  }

  // The root's own link carries everything; no rails, since one card is the root's.
  [[nodiscard]] double root_seconds(const CollectiveRequest& request) const {
    const GroupLayout& layout = *request.layout;
    const Link link = layout.num_nodes > 1 ? cluster_.inter_node : inside(layout.size());
    return link.latency_s +
           static_cast<double>(request.bytes - request.largest_chunk) / link.bytes_per_s;
  }

  [[nodiscard]] double tree_seconds(const CollectiveRequest& request) const {
    double latency = 0.0;
    if (request.tree->near_depth() > 0) {
      latency = request.tree->near_depth() * cluster_.intra_node.latency_s;
    }
    if (request.tree->far_depth() > 0) {
      latency += request.tree->far_depth() * cluster_.inter_node.latency_s;
    }
    const Link link = ring_link(*request.layout);
    return 2.0 * latency + 2.0 * static_cast<double>(request.bytes) / link.bytes_per_s;
  }

  Cluster cluster_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_alpha_beta_model(const Cluster& cluster) {
  return std::make_unique<AlphaBeta>(cluster);
}

}  // namespace shardsim
