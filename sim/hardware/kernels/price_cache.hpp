#pragma once

#include <cstdint>
#include <vector>

#include "sim/hardware/device.hpp"

// Prices of operations that come again and again: pipelines ask for millions of a few hundred.
namespace shardsim {

/// Of one device, in one thread. Answers as Device::price does, always.
class PriceCache {
 public:
  /// `device` outlives the cache and does not change.
  explicit PriceCache(const Device& device);

  [[nodiscard]] Time price(const ComputeOp& op);

 private:
  struct Entry {
    ComputeOp op{};
    Time time;
    bool is_used = false;
  };

  const Device& device_;
  std::vector<Entry> entries_;  // One per hash; a newcomer takes the place.
};

}  // namespace shardsim
