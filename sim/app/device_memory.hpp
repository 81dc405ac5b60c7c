#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/kernel/memory_replay.hpp"

#include "backends/fiber/fiber_world.hpp"

#include "strategies/mesh.hpp"

#include "reports/result.hpp"

namespace shardsim {

/// The first rank of every pipeline stage, ascending.
[[nodiscard]] std::vector<int> replayed_ranks_of(const MeshShape& mesh);

/// What a rank's process holds outside its allocator: the CUDA context, and NCCL's buffers of all
/// communicators there are so far that the rank is in.
[[nodiscard]] std::int64_t outside_bytes(const FiberWorld& world, int rank);

/// The device's memory as the caching allocator and everything beside it take it, of one rank per
/// pipeline stage (docs/decisions/0033-caching-allocator.md). Lives less long than the world, and
/// from before its run to after.
class DeviceMemory {
 public:
  DeviceMemory(FiberWorld& world, const MeshShape& mesh);

  /// To be called on a rank when its communicators are there: what the device has left becomes the
  /// capacity of its allocator, if it is replayed.
  void limit_allocator(int rank);

  /// The largest of the replayed ranks each, what made the largest peak of blocks, and that peak of
  /// the last stage, whose rank is the one that frameworks log.
  void add_metrics(std::vector<Metric>& metrics) const;

  /// What a user should know of a run that the allocator has trouble with.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  const FiberWorld& world_;
  std::map<int, MemoryReplay> replays_;
};

}  // namespace shardsim
