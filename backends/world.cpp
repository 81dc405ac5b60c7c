#include "backends/world.hpp"

#include <utility>

namespace shardsim {

World::World(Cluster cluster)
    : cluster_(std::move(cluster)),
      executed_flops_(static_cast<std::size_t>(cluster_.num_ranks()), 0.0),
      sent_by_rank_(executed_flops_.size(), 0),
      comm_busy_(executed_flops_.size(), 0) {}

namespace {

class ReplayedMemory final : public WatchedMemory {
 public:
  ReplayedMemory(RankState& rank, std::int64_t capacity, std::int64_t outside) : replay_(rank) {
    replay_.set_device(capacity, outside);
  }
  [[nodiscard]] DeviceMemoryUse use() const override { return replay_.use(); }

 private:
  MemoryReplay replay_;
};

}  // namespace

std::unique_ptr<WatchedMemory> World::watch_memory(int rank, std::int64_t capacity,
                                                   std::int64_t outside) {
  return std::make_unique<ReplayedMemory>(this->rank(rank), capacity, outside);
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
  for (int rank = 1; rank < num_ranks(); ++rank) {
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

void World::add_traffic(const std::string& name, int rank, const TrafficCounters& counters) {
  traffic_[name] += counters;
  sent_by_rank_[static_cast<std::size_t>(rank)] += counters.payload_sent;
}

}  // namespace shardsim
