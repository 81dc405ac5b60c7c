#pragma once

#include <cstdint>

#include "sim/hardware/sourced_number.hpp"

// Device memory that a training process holds outside its allocator. Every constant has its source
// beside it, in words that a result repeats among its assumptions.
namespace shardsim {

/// NCCL's buffers of one connection in one channel, at the end that receives and at the one that
/// sends.
inline constexpr SourcedBytes kNcclReceiveBytes{
    std::int64_t{10} << 20U,
    "NCCL src/init.cc: 0.5 MiB for LL, 4.69 for LL128, 4 for Simple, in pages of 2 MiB; so logged "
    "in NVIDIA/nccl issue 1685"};
inline constexpr SourcedBytes kNcclSendBytes{std::int64_t{2} << 20U,
                                             "one page; logged in NVIDIA/nccl issue 1685"};

/// Channels of NCCL on machines of 8 GPUs with NVLink (A100, H100), where all members of a
/// communicator are on one node and where they are not.
struct NcclChannels {
  int near;
  int far;
  const char* source;
};
inline constexpr NcclChannels kNcclRingChannels{
    24, 16, "twice those that NCCL's search finds: NVIDIA/nccl issues 1197 and 1453, for H100"};
inline constexpr NcclChannels kNcclPeerChannels{
    32, 2, "NCCL 2.28, send and receive: per peer over NVLink and over a network"};

/// The use of a communicator by a member.
enum class NcclUse : std::uint8_t {
  rings,       ///< Collectives: one neighbour sends to it, it sends to another. Trees not counted.
  all_to_all,  ///< A connection to and from each other member.
  sends,       ///< To the one other member.
  receives,
};

/// Counts the other members of a communicator, as seen by one member.
struct NcclPeers {
  int near = 0;  ///< Members on its node.
  int far = 0;   ///< Members on other nodes. Rings only ask whether there are any.
};

/// Buffers of one member of a communicator; 0 if it is alone.
[[nodiscard]] inline std::int64_t nccl_buffer_bytes(const NcclPeers& peers, NcclUse use) {
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
