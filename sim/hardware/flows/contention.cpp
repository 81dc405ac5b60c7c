#include "sim/hardware/flows/contention.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardsim {

Contention::Contention(std::uint32_t num_owners)
    : num_owners_(num_owners),
      matrix_(std::size_t{num_owners} * (num_owners + 1)),
      loads_(num_owners) {}

Int128 Contention::charged(std::uint32_t slowed, std::uint32_t by) const {
  return matrix_[std::size_t{slowed} * (num_owners_ + 1) + by];
}

void Contention::add_slot() {
  if (num_owners_ > 0) losses_.resize(losses_.size() + num_owners_ + 1);
}

Int128* Contention::losses(FlowSlot slot) {
  return &losses_[std::size_t{slot} * (num_owners_ + 1)];
}

void Contention::charge(FlowTables& tables, LinkId id) {
  LinkState& link = tables.links[id];
  const std::int64_t now = tables.now.picoseconds();
  const std::int64_t passed = now - link.charged_until;
  link.charged_until = now;
  if (num_owners_ == 0 || link.num_held == 0 || passed == 0) return;
  std::fill(loads_.begin(), loads_.end(), 0);
  for (const LinkMember& member : link.members) {
    const FlowState& flow = tables.flows[member.slot];
    loads_[flow.owner] += Int128{member.coefficient} * flow.rate;
  }
  for (const LinkMember& member : link.members) {
    const FlowState& flow = tables.flows[member.slot];
    if (flow.bottleneck != id) continue;
    const Int128 itself = Int128{flow.crossings[member.crossing].usage} * flow.rate;
    loads_[flow.owner] -= itself;
    charge_flow(member.slot, Int128{passed} * (flow.cap - flow.rate));
    loads_[flow.owner] += itself;
  }
}

void Contention::charge_flow(FlowSlot slot, Int128 lost) {
  // Whole rate units: the sum of loads is below a capacity, so it fits in 63 bits.
  shares_.assign(loads_.begin(), loads_.end());
  for (Int128& share : shares_) share >>= 16;
  const auto shares = [](Int128 share) { return share > 0; };
  const auto first = std::find_if(shares_.begin(), shares_.end(), shares);
  Int128* const row = losses(slot);
  if (first == shares_.end()) {
    row[num_owners_] += lost;
  } else if (std::none_of(first + 1, shares_.end(), shares)) {
    row[first - shares_.begin()] += lost;
  } else {
    split_exactly(lost, shares_, parts_);
    for (std::uint32_t owner = 0; owner < num_owners_; ++owner) row[owner] += parts_[owner];
  }
}

void Contention::settle(const FlowState& flow, FlowSlot slot, Time delay) {
  if (num_owners_ == 0) return;
  Int128* const lost = losses(slot);
  shares_.assign(lost, lost + num_owners_ + 1);
  std::fill(lost, lost + num_owners_ + 1, 0);
  if (delay == Time()) return;
  // Losses have up to 126 bits. Shares of 62 bits are as exact as picoseconds need.
  Int128 sum = std::accumulate(shares_.begin(), shares_.end(), Int128{0});
  for (; sum >> 62 > 0; sum >>= 1) {
    for (Int128& share : shares_) share >>= 1;
  }
  split_exactly(delay.picoseconds(), shares_, parts_);
  const std::size_t row = std::size_t{flow.owner} * (num_owners_ + 1);
  for (std::uint32_t by = 0; by <= num_owners_; ++by) {
    matrix_[row + by] += parts_[by];
  }
}

void split_exactly(Int128 total, const std::vector<Int128>& weights, std::vector<Int128>& parts) {
  const Int128 sum = std::accumulate(weights.begin(), weights.end(), Int128{0});
  const Int128 quotient = total / sum;
  const Int128 rest = total % sum;
  std::vector<std::pair<Int128, std::size_t>> fractions;
  Int128 given = 0;
  parts.resize(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    parts[i] = quotient * weights[i] + rest * weights[i] / sum;
    given += parts[i];
    // Negated, so that the largest comes first, and of equal ones the lowest index.
    fractions.emplace_back(-(rest * weights[i] % sum), i);
  }
  std::sort(fractions.begin(), fractions.end());
  for (std::size_t i = 0; given < total; ++i, ++given) ++parts[fractions[i].second];
}

}  // namespace shardsim
