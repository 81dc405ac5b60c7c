#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/device.hpp"

// Prices of recurring operations: pipelines ask for millions of a few hundred.
namespace shardsim {

struct Price {
  Time device;  ///< Device::price,
  Time host;    ///< Device::issue_price.
};

/// Prices of one device, or of one that is slower by a factor, in one thread. Answers always equal
/// the device's.
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
  std::vector<Entry> entries_;  // One per hash; a new entry replaces the old one.
};

}  // namespace shardsim
