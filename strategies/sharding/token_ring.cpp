#include "strategies/sharding/token_ring.hpp"

#include <cstring>

namespace shardsim {

GatheringRing::GatheringRing(Runtime& runtime, Communicator& ring, Tensor whole,
                             const Tensor& shard, const char* label)
    : ring_(ring), whole_(std::move(whole)), rows_(num_rows(shard)), label_(label) {
  whole_.set_scales(shard.scales());  // Ranks agree on it ahead of a cast.
  runtime.off_the_clock([&] {
    std::memcpy(shard_at(0).data(), shard.data(), static_cast<std::size_t>(shard.num_bytes()));
  });
}

Tensor GatheringRing::shard_at(int step) const {
  const std::int64_t width = last_dim(whole_);
  return whole_.view(owner_at(step) * rows_ * width, {rows_, width});
}

}  // namespace shardsim
