#include "sim/app/device_memory.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "sim/hardware/outside_memory.hpp"
#include "sim/hardware/software.hpp"

#include "sim/app/metrics.hpp"

namespace shardsim {

namespace {

// An edge between pipeline stages has its sender first.
NcclUse use_of(std::string_view name, int member) {
  if (name == "ep" || name == "cp_ulysses") return NcclUse::all_to_all;
  if (name.substr(0, 3) != "pp_") return NcclUse::rings;
  return member == 0 ? NcclUse::sends : NcclUse::receives;
}

}  // namespace

std::vector<int> replayed_ranks_of(const MeshShape& mesh) {
  std::vector<int> ranks;
  for (int stage = 0; stage < mesh.pp; ++stage) ranks.push_back(mesh.rank_of({.pp = stage}));
  return ranks;
}

std::int64_t outside_bytes(const FiberWorld& world, int rank) {
  std::int64_t bytes = cuda_context_of(world.options().cluster.device.software).bytes;
  for (const FiberGroup& group : world.groups()) {
    if (axis_of(group.name()) == "none") continue;
    const std::vector<int>& members = group.layout().members;
    const auto self = std::find(members.begin(), members.end(), rank);
    if (self == members.end()) continue;
    const auto member = static_cast<int>(self - members.begin());
    bytes += nccl_buffer_bytes(group.layout(), member, use_of(group.name(), member));
  }
  return bytes;
}

DeviceMemory::DeviceMemory(FiberWorld& world, const MeshShape& mesh) : world_(world) {
  for (const int rank : replayed_ranks_of(mesh)) {
    replays_.try_emplace(rank, world.engine().rank(rank));
  }
}

void DeviceMemory::limit_allocator(int rank) {
  const auto found = replays_.find(rank);
  if (found == replays_.end()) return;
  found->second.set_device(world_.options().cluster.device.memory_bytes,
                           outside_bytes(world_, rank));
}

void DeviceMemory::add_metrics(std::vector<Metric>& metrics) const {
  std::int64_t allocated = -1;
  std::int64_t reserved = 0;
  std::int64_t device = 0;
  std::int64_t retries = 0;
  std::string peak;
  for (const auto& [rank, replay] : replays_) {
    const CachingAllocator& allocator = replay.allocator();
    if (allocator.allocated_peak() > allocated) {
      allocated = allocator.allocated_peak();
      peak = fmt::format("{} bytes of {} on rank {}, {:.6f} s into the run", replay.peak().bytes,
                         name_of(replay.peak().category), rank, replay.peak().time.seconds());
    }
    reserved = std::max(reserved, allocator.reserved_peak());
    device = std::max(device, replay.device_peak());
    retries = std::max(retries, allocator.retries());
  }
  metrics.push_back({"memory.allocated_peak_bytes.max", allocated});
  metrics.push_back({"memory.allocated_peak_bytes.last_stage",
                     replays_.rbegin()->second.allocator().allocated_peak()});
  metrics.push_back({"memory.reserved_peak_bytes.max", reserved});
  metrics.push_back({"memory.device_bytes.max", device});
  metrics.push_back({"memory.allocator_retries.max", retries});
  metrics.push_back({"memory.peak_allocation", peak});
}

std::vector<std::string> DeviceMemory::warnings() const {
  const std::int64_t capacity = world_.options().cluster.device.memory_bytes;
  for (const auto& [rank, replay] : replays_) {
    if (!replay.out_of_memory()) continue;
    return {
        fmt::format("rank {} may run out of device memory: tensors alone fit, but with the "
                    "caching allocator's rounding and gaps, the CUDA context and NCCL's buffers "
                    "{} bytes of {} are needed; shard more, use smaller microbatches, or "
                    "recompute activations",
                    rank, replay.device_peak(), capacity)};
  }
  for (const auto& [rank, replay] : replays_) {
    if (replay.allocator().retries() == 0) continue;
    return {
        fmt::format("rank {} fits, but its caching allocator has to give memory back to the "
                    "device, which takes time that is not in the step; times it happens: {}",
                    rank, replay.allocator().retries())};
  }
  return {};
}

}  // namespace shardsim
