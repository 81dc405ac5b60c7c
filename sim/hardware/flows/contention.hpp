#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/flows/flow_tables.hpp"

// Delays, by the flow that has one and by whoever caused it. A flow at rate r instead of its cap R
// loses R - r at each moment. The loss is charged to the owners of the other flows on its
// bottleneck, in proportion to their load there; to the link itself where the flow is alone. A flow
// of weight k is beside k - 1 of its own kind.
namespace shardsim {

class Contention {
 public:
  explicit Contention(std::uint32_t num_owners);

  [[nodiscard]] std::uint32_t num_owners() const { return num_owners_; }
  /// Picoseconds that flows of `slowed` waited for `by`; num_owners() stands for links themselves.
  /// All that an owner's flows have waited is the sum of its row, to the picosecond.
  [[nodiscard]] Int128 charged(std::uint32_t slowed, std::uint32_t by) const;

  /// Room for one more slot of flows.
  void add_slot();
  /// Charges what the flows that the link holds have lost since the last charge. Call before rates,
  /// members or held flows of the link change, and not otherwise: each charge is rounded.
  void charge(FlowTables& tables, LinkId link);
  /// Splits the delay of a flow that has ended as its losses are split.
  void settle(const FlowState& flow, FlowSlot slot, Time delay);

 private:
  void charge_flow(FlowSlot slot, Int128 lost);
  [[nodiscard]] Int128* losses(FlowSlot slot);

  std::uint32_t num_owners_;
  // Picoseconds: sums over flows may be longer than the clock. A row has a column for links, too.
  std::vector<Int128> matrix_;
  std::vector<Int128> losses_;  // Rate units times picoseconds; a row per slot.
  std::vector<Int128> loads_;   // A link's, by owner.
  std::vector<Int128> parts_;
  std::vector<Int128> shares_;
};

/// Splits `total` into parts in proportion to `weights`, remainders by largest fraction and then by
/// lowest index. REQUIRES: the weights are not negative, and their sum is positive and fits in 63
/// bits; total times (1 + 1 / sum) fits in 126 bits.
void split_exactly(Int128 total, const std::vector<Int128>& weights, std::vector<Int128>& parts);

}  // namespace shardsim
