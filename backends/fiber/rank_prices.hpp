#pragma once

#include <map>

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"

namespace shardsim {

/// Prices of what ranks compute. Ranks of one speed, mostly all, share a cache.
class RankPrices {
 public:
  /// `cluster` outlives it and does not change.
  explicit RankPrices(const Cluster& cluster) : cluster_(cluster) {}

  [[nodiscard]] PriceCache& of(int rank) {
    const double slowdown = cluster_.faults == nullptr ? 1.0 : cluster_.faults->slowdown_of(rank);
    return by_slowdown_.try_emplace(slowdown, cluster_.device, slowdown).first->second;
  }

 private:
  const Cluster& cluster_;
  std::map<double, PriceCache> by_slowdown_;
};

}  // namespace shardsim
