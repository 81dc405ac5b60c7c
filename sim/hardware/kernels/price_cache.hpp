#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/device.hpp"

// Prices of operations that come again and again: pipelines ask for millions of a few hundred.
namespace shardsim {

struct Price {
  Time device;  ///< Device::price,
  Time host;    ///< Device::issue_price.
};

/// Of one device, or of one that is slower by a factor, in one thread. Answers as the device does,
/// always.
class PriceCache {
 public:
  /// `device` outlives the cache and does not change.
  explicit PriceCache(const Device& device, double slowdown = 1.0);

  [[nodiscard]] Price price(const ComputeOp& op);

 private:
  struct Entry {
    ComputeOp op{};
    Price price;
    bool is_used = false;
  };

  const Device& device_;
  double slowdown_;
  std::vector<Entry> entries_;  // One per hash; a newcomer takes the place.
};

}  // namespace shardsim
