#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/moe_options.hpp"

// Routing that is declared, not learned: which experts the token at a position of a sequence goes
// to is a function of layer and position, the same for every sample and under every layout. So
// plans send what verified runs send, however the routing is skewed.
//
// The s k slots of a sequence are shared out to experts by largest remainder, an expert never
// getting more than s: then they are written down expert after expert, and slot j of token t is
// number t + j s of that list. Two slots of a token are s apart, so they are of different experts.
// Positions are scattered over t by t = p a mod s, a near s / golden ratio and prime to s: any run
// of positions meets experts in about their shares. From layer to layer experts move on by one, so
// that the popular ones are not always the same rank's; where shares are listed, they stay.
namespace shardsim {

class DeclaredRouting {
 public:
  /// REQUIRES: valid options that declare the routing, seq_len >= 1.
  DeclaredRouting(const MoeOptions& options, std::int64_t seq_len);

  /// Expert of a token's slot. `layer` counts those with experts, from 0.
  [[nodiscard]] int expert_of(int layer, std::int64_t position, std::int64_t slot) const;

  /// Slots that each expert gets of a sequence, before it moves on: of a layer's list.
  [[nodiscard]] const std::vector<std::int64_t>& shares(int layer) const {
    return lists_[index_of(layer)].shares;
  }
  /// How many experts layer's have moved on from those of shares().
  [[nodiscard]] int rotation(int layer) const {
    return rotates_ ? layer % static_cast<int>(num_experts_) : 0;
  }
  /// Layers with the same number have the same lists.
  [[nodiscard]] std::size_t index_of(int layer) const {
    return lists_.size() == 1 ? 0 : static_cast<std::size_t>(layer);
  }

 private:
  struct List {
    std::vector<std::int64_t> shares;
    std::vector<int> slots;  // Expert of each of the s k slots.
  };
  std::int64_t num_experts_;
  std::int64_t seq_len_;
  std::int64_t stride_;
  bool rotates_;
  std::vector<List> lists_;
};

/// `total` shared out in proportion to `weights`, none above `most`: largest remainders, the first
/// of equals. REQUIRES: a weight above 0, total <= most x weights.size(). The others get the rest
/// that those with a weight cannot take.
[[nodiscard]] std::vector<std::int64_t> apportion(std::int64_t total,
                                                  const std::vector<double>& weights,
                                                  std::int64_t most);

}  // namespace shardsim
