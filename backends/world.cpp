#include "backends/world.hpp"

#include <numeric>
#include <utility>

namespace shardsim {

World::World(Cluster cluster, const Fold* fold)
    : cluster_(std::move(cluster)),
      fold_(fold),
      everyone_(fold == nullptr ? static_cast<std::size_t>(cluster_.num_ranks()) : 0) {
  std::iota(everyone_.begin(), everyone_.end(), 0);
  executed_flops_.resize(running().size(), 0.0);
  comm_busy_.resize(running().size(), 0);
}

namespace {

class ReplayedMemory final : public WatchedMemory {
 public:
  ReplayedMemory(RankState& rank, const DeviceRoom& room) : replay_(rank) {
    replay_.set_device(room);
  }
  [[nodiscard]] DeviceMemoryUse use() const override { return replay_.use(); }

 private:
  MemoryReplay replay_;
};

}  // namespace

std::unique_ptr<WatchedMemory> World::watch_memory(int rank, const DeviceRoom& room) {
  return std::make_unique<ReplayedMemory>(this->rank(rank), room);
}

void World::for_each_link(const std::function<void(const LinkTraffic&)>& visit) const {
  for_equal_links([&](const EqualLinks& links) {
    LinkTraffic link = links.first();
    visit(link);
    for (std::size_t twin = 0; twin < links.twins.size(); ++twin) {
      link.from_rank = links.twins.rank(twin, links.from);
      link.to_rank = links.twins.rank(twin, links.to);
      visit(link);
    }
  });
}

void World::add_sent(std::int64_t bytes, const std::vector<int>& members, const Twins& twins,
                     int member, std::vector<std::int64_t>& by_rank) {
  if (bytes == 0) return;
  by_rank[static_cast<std::size_t>(members[static_cast<std::size_t>(member)])] += bytes;
  for (std::size_t twin = 0; twin < twins.size(); ++twin) {
    by_rank[static_cast<std::size_t>(twins.rank(twin, member))] += bytes;
  }
}

TrafficCounters World::total_traffic() const {
  TrafficCounters total;
  for (const auto& [_, counters] : traffic_) total += counters;
  return total;
}

std::span<const std::int64_t> World::tallied(std::string_view name) const {
  const auto found = tallies_.find(name);
  return found == tallies_.end() ? std::span<const std::int64_t>() : found->second;
}

int World::fullest_rank() const {
  int fullest = 0;
  for (const int rank : running()) {
    if (ledger(rank).peak() > ledger(fullest).peak()) fullest = rank;
  }
  return fullest;
}

void World::tally(const char* name, std::int64_t first, std::span<const std::int64_t> amounts,
                  std::int64_t times) {
  auto found = tallies_.find(std::string_view(name));
  if (found == tallies_.end()) found = tallies_.try_emplace(name).first;
  std::vector<std::int64_t>& sums = found->second;
  const std::size_t end = static_cast<std::size_t>(first) + amounts.size();
  if (sums.size() < end) sums.resize(end, 0);
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    sums[static_cast<std::size_t>(first) + i] += times * amounts[i];
  }
}

void World::add_traffic(const std::string& name, const TrafficCounters& counters,
                        std::int64_t members) {
  traffic_[name] += times(counters, members);
}

}  // namespace shardsim
