#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "backends/fold.hpp"
#include "backends/world.hpp"

#include "strategies/mesh.hpp"

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// One rank of each kind, ascending. Ranks of a kind make the same allocations and hold the same
/// bytes beside them. Different stages are different kinds. Within a stage, kinds differ by shards,
/// by parts of matrices, by the placement of groups on nodes, and by faults. If routing or changing
/// members decide what a rank holds, each rank is a kind. Only ranks that run count, and the lowest
/// represents its kind: the first rank of every stage always does. `fold`: null if all ranks run.
[[nodiscard]] std::vector<int> rank_kinds(const Experiment& experiment, const Fold* fold);

/// The same for ranks whose programs are known. `program_of`: by rank, a number that is equal where
/// the programs are.
[[nodiscard]] std::vector<int> rank_kinds(const Experiment& experiment,
                                          const std::vector<int>& program_of);

/// Whether a plan whose fullest rank needs `device_bytes` leaves execution.memory_margin of its
/// device.
[[nodiscard]] bool leaves_margin(const Experiment& experiment, std::int64_t device_bytes);

/// The use of the device's memory by the caching allocator and everything beside it, for one rank
/// of each kind (docs/decisions/0055-fits-on-the-device.md). It lives from before the world's run
/// to after it; the world outlives it.
class DeviceMemory {
 public:
  /// All outlive it but `kinds`, one rank of each kind; `world` is the experiment's.
  DeviceMemory(World& world, const Experiment& experiment, const std::vector<int>& kinds);

  /// Adds each metric's largest value over the replayed ranks, the allocation that made the largest
  /// peak of blocks, and that peak on the last stage. Frameworks log the rank of the last stage.
  void add_metrics(std::vector<Metric>& metrics) const;

  /// Checks that the device holds what the fullest rank needs; the check is called "memory". A run
  /// with real tensors checks numbers on any device: it compares only the tensors.
  [[nodiscard]] Check check() const;

  /// Warnings for a run that fits: it leaves less than execution.memory_margin, or its allocator
  /// has trouble.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  struct Fullest {
    int rank = 0;
    DeviceMemoryUse use;
  };
  /// The fullest rank; of equal ranks, the lowest.
  [[nodiscard]] Fullest fullest() const;
  [[nodiscard]] std::int64_t capacity() const { return world_.cluster().device.memory_bytes; }

  const World& world_;
  const Experiment& experiment_;
  std::map<int, std::unique_ptr<WatchedMemory>> watched_;
};

// --- Outside the allocator ---------------------------------------------------------------------

/// Bytes of the CUDA context and of NCCL's buffers for the communicators of a rank of this mesh.
/// sim/hardware/outside_memory.hpp has their sources. `ulysses`: ulysses_size() of the cp ranks.
/// Quick for large groups: for rings it only matters whether any member is on another node.
/// REQUIRES: mesh.size() <= cluster.num_ranks(); 0 <= rank < mesh.size(); ulysses divides mesh.cp.
[[nodiscard]] std::int64_t outside_bytes(const Cluster& cluster, const MeshShape& mesh, int ulysses,
                                         int rank);

}  // namespace shardsim
