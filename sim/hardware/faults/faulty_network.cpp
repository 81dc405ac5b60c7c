#include "sim/hardware/faults/faulty_network.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/platform.hpp"

namespace shardsim {

namespace {

// --- Outages -----------------------------------------------------------------------------------

// The most outages during one operation, if several links take turns.
constexpr int kMostOutages = 1'000'000;

// Time since the last outage began, at or before `moment`. REQUIRES: moment >= link.phase.
Time since_outage(const FlappingLink& link, Time moment) {
  return Time::from_picoseconds((moment - link.phase).picoseconds() % link.period.picoseconds());
}

bool is_down(const FlappingLink& link, Time moment) {
  return moment >= link.phase && since_outage(link, moment) < link.down;
}

// REQUIRES: !is_down(link, moment).
Time next_outage(const FlappingLink& link, Time moment) {
  if (moment < link.phase) return link.phase;
  return moment + (link.period - since_outage(link, moment));
}

// The first moment from `moment` on at which all links are up.
Time when_up(std::span<const FlappingLink> links, Time moment, int& outages) {
  for (bool waited = true; waited && outages < kMostOutages;) {
    waited = false;
    for (const FlappingLink& link : links) {
      if (!is_down(link, moment)) continue;
      moment += link.down - since_outage(link, moment);
      ++outages;
      waited = true;
    }
  }
  return moment;
}

// Skips whole periods of the only link at once; it is up at `moment`.
Time skip_periods(const FlappingLink& link, Time& moment, Time left) {
  const Time up = link.period - link.down;
  const Time until = next_outage(link, moment) - moment;
  if (left <= until) return left;
  moment += until + link.down;  // An outage has just ended.
  left -= until;
  // The last part may end where an outage begins, but not after it.
  const std::int64_t periods = (left.picoseconds() - 1) / up.picoseconds();
  std::int64_t skipped = 0;
  if (__builtin_mul_overflow(periods, link.period.picoseconds(), &skipped)) {
    skipped = std::numeric_limits<std::int64_t>::max();  // Adding it is an error of its own.
  }
  moment += Time::from_picoseconds(skipped);
  return left - Time::from_picoseconds(periods * up.picoseconds());
}

// --- Prices ------------------------------------------------------------------------------------

// The worst of a group's links of one tier.
struct Wear {
  double bandwidth_factor = 1.0;
  double added_latency_s = 0.0;

  void add(const SlowLink& link) {
    bandwidth_factor = std::min(bandwidth_factor, link.bandwidth_factor);
    added_latency_s = std::max(added_latency_s, link.added_latency_s);
  }
};

// The links of an operation, as far as faults matter.
struct Route {
  NetworkModel* network = nullptr;  // Model of a machine with only the worst links.
  std::vector<FlappingLink> flapping;
};

// The links that an operation uses, by node.
class UsedLinks {
 public:
  void use(LinkTier tier, int node) {
    (tier == LinkTier::intra_node ? inside_ : between_).insert(node);
  }

  template <typename Fault>
  [[nodiscard]] bool has(const Fault& fault) const {
    const auto& nodes = fault.tier == LinkTier::intra_node ? inside_ : between_;
    return fault.node == kAllNodes ? !nodes.empty() : nodes.count(fault.node) > 0;
  }
  [[nodiscard]] bool goes_between() const { return !between_.empty(); }
  [[nodiscard]] bool goes_inside() const { return !inside_.empty(); }

 private:
  std::set<int> inside_;
  std::set<int> between_;
};

UsedLinks links_of(const GroupLayout& layout) {
  std::map<int, int> members;
  for (const int node : layout.node) ++members[node];
  UsedLinks used;
  for (const auto& [node, count] : members) {
    if (count > 1) used.use(LinkTier::intra_node, node);
    if (members.size() > 1) used.use(LinkTier::inter_node, node);
  }
  return used;
}

void wear_out(Link& link, const Wear& wear) {
  link.bytes_per_s *= wear.bandwidth_factor;
  link.latency_s += wear.added_latency_s;
}

void correct(NcclCorrection& tier, double bandwidth_factor, double added_latency_s) {
  constexpr double kUsPerS = 1e6;
  tier.bandwidth_factor *= bandwidth_factor;
  tier.added_latency_us += added_latency_s * kUsPerS;
}

// The share of bandwidth left between nodes, for operations on `rails` cards of a node at once.
double share_left(const Cluster& cluster, const Wear& inside, const Wear& between, int rails) {
  const double card = cluster.inter_node.bytes_per_s * rails;
  const double fast = cluster.intra_node.bytes_per_s;
  return std::min(card * between.bandwidth_factor, fast * inside.bandwidth_factor) /
         std::min(card, fast);
}

class FaultyNetwork final : public NetworkModel {
 public:
  explicit FaultyNetwork(const Cluster& cluster) : cluster_(cluster), faults_(cluster.faults) {
    cluster_.faults = nullptr;
  }

  bool depends_on_order() const override { return false; }
  bool depends_on_start() const override { return !faults_->flapping_links.empty(); }

  CollectivePrice collective(const CollectiveRequest& request, Time start) override {
    const GroupLayout& layout = *request.layout;
    if (layout.size() == 1) return {};
    auto found = groups_.find(layout.members);
    if (found == groups_.end()) {
      found = groups_.emplace(layout.members, route(links_of(layout), layout.rails)).first;
    }
    CollectivePrice price = found->second.network->collective(request, start);
    price.duration = end_with_outages(found->second.flapping, start, price.duration) - start;
    return price;
  }

  Time transfer(int source, int destination, std::int64_t bytes, Time start) override {
    if (source == destination) return Time();
    const int from = cluster_.node_of(source);
    const int to = cluster_.node_of(destination);
    const auto ends = std::minmax(from, to);
    auto found = pairs_.find(ends);
    if (found == pairs_.end()) {
      UsedLinks used;
      const LinkTier tier = from == to ? LinkTier::intra_node : LinkTier::inter_node;
      used.use(tier, from);
      used.use(tier, to);
      found = pairs_.emplace(ends, route(used, 1)).first;
    }
    const Time duration = found->second.network->transfer(source, destination, bytes, start);
    return end_with_outages(found->second.flapping, start, duration) - start;
  }

 private:
  Route route(const UsedLinks& used, int rails) {
    Wear inside;
    Wear between;
    for (const SlowLink& link : faults_->slow_links) {
      if (used.has(link)) (link.tier == LinkTier::intra_node ? inside : between).add(link);
    }
    Route route;
    for (const FlappingLink& link : faults_->flapping_links) {
      if (used.has(link)) route.flapping.push_back(link);
    }
    // Either link may limit a price between nodes: rails only matter if both links are used.
    const bool is_mixed = used.goes_inside() && used.goes_between();
    route.network = &worn(inside, between, is_mixed ? rails : 0);
    return route;
  }

  // The model of a machine whose links are all like these.
  NetworkModel& worn(const Wear& inside, const Wear& between, int mixed_rails) {
    const std::array<double, 5> key = {inside.bandwidth_factor, inside.added_latency_s,
                                       between.bandwidth_factor, between.added_latency_s,
                                       static_cast<double>(mixed_rails)};
    std::unique_ptr<NetworkModel>& model = models_[key];
    if (model) return *model;
    Cluster cluster = cluster_;
    if (cluster.nccl == nullptr) {
      wear_out(cluster.intra_node, inside);
      cluster.pair_bytes_per_s *= inside.bandwidth_factor;
      wear_out(cluster.inter_node, between);
    } else {
      auto platform = std::make_shared<NcclPlatform>(*cluster.nccl);
      const double far = mixed_rails == 0 ? between.bandwidth_factor
                                          : share_left(cluster_, inside, between, mixed_rails);
      correct(platform->overrides.inside, inside.bandwidth_factor, inside.added_latency_s);
      const double latency = mixed_rails == 0
                                 ? between.added_latency_s
                                 : std::max(inside.added_latency_s, between.added_latency_s);
      correct(platform->overrides.between, far, latency);
      cluster.nccl = std::move(platform);
    }
    model = make_network_model(cluster);
    return *model;
  }

  Cluster cluster_;  // The machine without faults.
  std::shared_ptr<const MachineFaults> faults_;
  std::map<std::array<double, 5>, std::unique_ptr<NetworkModel>> models_;
  std::map<std::vector<int>, Route> groups_;    // By their members.
  std::map<std::pair<int, int>, Route> pairs_;  // By nodes, the lower one first.
};

}  // namespace

Time end_with_outages(std::span<const FlappingLink> links, Time start, Time duration) {
  if (links.empty() || duration == Time()) return start + duration;
  int outages = 0;
  Time left = duration;
  Time moment = when_up(links, start, outages);
  if (links.size() == 1) {
    left = skip_periods(links.front(), moment, left);
    return moment + left;
  }
  while (outages < kMostOutages) {
    Time next = next_outage(links.front(), moment);
    for (const FlappingLink& link : links.subspan(1)) next = min(next, next_outage(link, moment));
    if (left <= next - moment) return moment + left;
    left -= next - moment;
    moment = when_up(links, next, outages);
  }
  throw LimitError("E1396",
                   "an operation over flapping links does not end: one of " +
                       std::to_string(links.size()) + " links is down at almost any time",
                   "use shorter outages, or fewer flapping links (faults.flapping_links)");
}

bool MachineFaults::tells_nodes_apart() const {
  const auto is_of_one = [](const auto& link) { return link.node != kAllNodes; };
  return std::ranges::any_of(slow_links, is_of_one) ||
         std::ranges::any_of(flapping_links, is_of_one);
}

std::unique_ptr<NetworkModel> make_faulty_network(const Cluster& cluster) {
  return std::make_unique<FaultyNetwork>(cluster);
}

}  // namespace shardsim
