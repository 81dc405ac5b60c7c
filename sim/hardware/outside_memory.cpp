#include "sim/hardware/outside_memory.hpp"

#include <algorithm>

namespace shardsim {

std::int64_t nccl_buffer_bytes(const GroupLayout& layout, int member, NcclUse use) {
  if (layout.size() == 1) return 0;
  constexpr std::int64_t kBothEnds = kNcclReceiveBytes.bytes + kNcclSendBytes.bytes;
  if (use == NcclUse::rings) {
    return kBothEnds * (layout.num_nodes == 1 ? kNcclRingChannels.near : kNcclRingChannels.far);
  }
  const int own = layout.node[static_cast<std::size_t>(member)];
  const std::int64_t near = std::count(layout.node.begin(), layout.node.end(), own) - 1;
  const std::int64_t far = layout.size() - 1 - near;
  const std::int64_t channels = near * kNcclPeerChannels.near + far * kNcclPeerChannels.far;
  if (use == NcclUse::sends) return channels * kNcclSendBytes.bytes;
  if (use == NcclUse::receives) return channels * kNcclReceiveBytes.bytes;
  return channels * kBothEnds;
}

}  // namespace shardsim
