#include "sim/hardware/outside_memory.hpp"

namespace shardsim {

std::int64_t nccl_buffer_bytes(const NcclPeers& peers, NcclUse use) {
  if (peers.near + peers.far == 0) return 0;
  constexpr std::int64_t kBothEnds = kNcclReceiveBytes.bytes + kNcclSendBytes.bytes;
  if (use == NcclUse::rings) {
    return kBothEnds * (peers.far == 0 ? kNcclRingChannels.near : kNcclRingChannels.far);
  }
  const std::int64_t channels = std::int64_t{peers.near} * kNcclPeerChannels.near +
                                std::int64_t{peers.far} * kNcclPeerChannels.far;
  if (use == NcclUse::sends) return channels * kNcclSendBytes.bytes;
  if (use == NcclUse::receives) return channels * kNcclReceiveBytes.bytes;
  return channels * kBothEnds;
}

}  // namespace shardsim
