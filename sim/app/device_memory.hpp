#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/kernel/memory_replay.hpp"

#include "backends/fiber/fiber_world.hpp"

#include "strategies/training/parallel_plan.hpp"

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// The device's memory as the caching allocator and everything beside it take it, of one rank of
/// each kind (sim/app/rank_kinds.hpp; docs/decisions/0055-fits-on-the-device.md). Lives less long
/// than the world, and from before its run to after.
class DeviceMemory {
 public:
  /// All three outlive it; `world` is of this scenario and plan.
  DeviceMemory(FiberWorld& world, const Scenario& scenario, const ParallelPlan& plan);

  /// The largest of the replayed ranks each, what made the largest peak of blocks, and that peak of
  /// the last stage, whose rank is the one that frameworks log.
  void add_metrics(std::vector<Metric>& metrics) const;

  /// Whether the device holds what the fullest rank needs of it, by name "memory". A run with real
  /// tensors is a check of numbers on any device: there the tensors alone are asked.
  [[nodiscard]] Check check() const;

  /// What a user should know of a run that fits: that it leaves less than execution.memory_margin,
  /// or that its allocator has trouble.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  struct Fullest {
    int rank = 0;
    const MemoryReplay* replay = nullptr;
  };
  /// The lowest of equals.
  [[nodiscard]] Fullest fullest() const;
  [[nodiscard]] std::int64_t capacity() const {
    return world_.options().cluster.device.memory_bytes;
  }

  const FiberWorld& world_;
  const Scenario& scenario_;
  const MeshShape& mesh_;
  std::map<int, MemoryReplay> replays_;
};

}  // namespace shardsim
