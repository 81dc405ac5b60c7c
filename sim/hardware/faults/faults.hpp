#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/kernel/time.hpp"

// The faults of a machine's parts, beside a healthy Cluster. A cluster without faults has none of
// these (Cluster::faults is null), and pays nothing for them.
namespace shardsim {

enum class LinkTier : std::uint8_t { intra_node, inter_node };

inline constexpr int kAllNodes = -1;

struct SlowLink {
  LinkTier tier = LinkTier::inter_node;
  int node = kAllNodes;
  double bandwidth_factor = 1.0;  ///< (0, 1].
  double added_latency_s = 0.0;
};

/// Down in [phase + k period, phase + k period + down) for k = 0, 1, ... REQUIRES: down < period.
struct FlappingLink {
  LinkTier tier = LinkTier::inter_node;
  int node = kAllNodes;
  Time down;
  Time period;
  Time phase;
};

struct MachineFaults {
  /// By rank: its computing takes so many times as long. Empty: 1 for all.
  std::vector<double> slowdown;
  std::vector<SlowLink> slow_links;
  std::vector<FlappingLink> flapping_links;

  [[nodiscard]] double slowdown_of(int rank) const {
    return slowdown.empty() ? 1.0 : slowdown[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool has_links() const { return !slow_links.empty() || !flapping_links.empty(); }
  /// Whether links of some nodes differ from those of others.
  [[nodiscard]] bool tells_nodes_apart() const;
};

}  // namespace shardsim
