#include "sim/run/device_memory.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/hardware/outside_memory.hpp"
#include "sim/hardware/software.hpp"

#include "reports/units.hpp"

namespace shardsim {

namespace {

// Whether each rank may hold something different.
bool all_differ(const ModelSpec& model, const ParallelismSpec& parallelism) {
  return model.num_experts > 0 || parallelism.is_elastic() || parallelism.trains_apart() ||
         parallelism.changes_algorithm();
}

bool has_worse_links(const MachineFaults& faults, int node) {
  const auto is_here = [node](const auto& link) { return link.node == node; };
  return std::ranges::any_of(faults.slow_links, is_here) ||
         std::ranges::any_of(faults.flapping_links, is_here);
}

constexpr double kInPercent = 100.0;
constexpr const char* kWayOut = "shard more, use smaller microbatches, or recompute activations";

// Both sizes in words: rounded if that keeps them apart, else exact.
std::pair<std::string, std::string> sizes_apart(std::int64_t one, std::int64_t other) {
  std::pair<std::string, std::string> words = {format_memory(static_cast<double>(one)),
                                               format_memory(static_cast<double>(other))};
  if (words.first == words.second && one != other) {
    words = {fmt::format("{} bytes", one), fmt::format("{} bytes", other)};
  }
  return words;
}

// --- Outside the allocator ---------------------------------------------------------------------

class Outside {
 public:
  Outside(const Cluster& cluster, const MeshShape& mesh, int rank)
      : cluster_(cluster), mesh_(mesh), rank_(rank), place_(mesh.place_of(rank)) {}

  void add(const SourcedBytes& context) { bytes_ += context.bytes; }

  // Adds a communicator of `size` ranks: `member(i)` is the world rank of member i.
  template <typename Member>
  void add_group(int size, NcclUse use, const Member& member) {
    NcclPeers peers;
    for (int i = 0; i < size; ++i) {
      const int other = member(i);
      if (other == rank_) continue;
      ++(cluster_.node_of(other) == cluster_.node_of(rank_) ? peers.near : peers.far);
      if (use == NcclUse::rings && peers.far > 0) break;
    }
    bytes_ += nccl_buffer_bytes(peers, use);
  }

  // Adds the group of ranks that differ on one axis alone, from `first` on, `step` apart.
  void add_axis(int MeshPlace::*axis, int first, int size, int step, NcclUse use) {
    add_group(size, use, [&](int i) {
      MeshPlace place = place_;
      place.*axis = first + i * step;
      return mesh_.rank_of(place);
    });
  }

  void add_context_groups(int ulysses) {
    const int c = mesh_.cp;
    if (ulysses == 1 || ulysses == c) {
      add_axis(&MeshPlace::cp, 0, c, 1, ulysses == 1 ? NcclUse::rings : NcclUse::all_to_all);
      return;
    }
    // The group of all cp ranks only creates these two groups.
    add_axis(&MeshPlace::cp, place_.cp / ulysses * ulysses, ulysses, 1, NcclUse::all_to_all);
    add_axis(&MeshPlace::cp, place_.cp % ulysses, c / ulysses, ulysses, NcclUse::rings);
  }

  void add_replicas(WeightKind kind) {
    const int shards = mesh_.num_shards(kind);
    const int shard = mesh_.shard_of(place_, kind);
    const auto owner = [&](int replica, int of_shard) {
      if (kind == WeightKind::dense) {
        return mesh_.rank_of({.tp = place_.tp,
                              .cp = of_shard % mesh_.cp,
                              .dp_shard = of_shard / mesh_.cp,
                              .dp_replicate = replica,
                              .pp = place_.pp});
      }
      return expert_rank(replica, of_shard * mesh_.ep + mesh_.ep_of(place_));
    };
    add_group(shards, NcclUse::rings, [&](int i) { return owner(place_.dp_replicate, i); });
    add_group(mesh_.dp_replicate, NcclUse::rings, [&](int i) { return owner(i, shard); });
    add_group(mesh_.num_owners(kind), NcclUse::rings,
              [&](int i) { return owner(i / shards, i % shards); });
  }

  void add_experts() {
    const int group = mesh_.shard_of(place_, WeightKind::expert);
    add_group(mesh_.ep, NcclUse::all_to_all,
              [&](int i) { return expert_rank(place_.dp_replicate, group * mesh_.ep + i); });
    add_replicas(WeightKind::expert);
  }

  // The groups of all stages, of the first and last stage, and both directions of each neighbour.
  void add_pipeline() {
    const int last = mesh_.pp - 1;
    add_axis(&MeshPlace::pp, 0, mesh_.pp, 1, NcclUse::rings);
    if (place_.pp == 0 || place_.pp == last) {
      add_axis(&MeshPlace::pp, 0, 2, last, NcclUse::rings);
    }
    const bool has_ring = !mesh_.v_placement;
    if (has_ring || place_.pp < last) add_edges((place_.pp + 1) % mesh_.pp);
    if (has_ring || place_.pp > 0) add_edges((place_.pp + last) % mesh_.pp);
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  // Counts the ranks of a stage and replica in the order of MeshShape's expert groups.
  [[nodiscard]] int expert_rank(int replica, int index) const {
    const int shard = index / mesh_.tp;
    return mesh_.rank_of({.tp = index % mesh_.tp,
                          .cp = shard % mesh_.cp,
                          .dp_shard = shard / mesh_.cp,
                          .dp_replicate = replica,
                          .pp = place_.pp});
  }

  // Each direction to a neighbour has its own communicator. With V placement, chunks that go up the
  // ranks have their own, too.
  void add_edges(int neighbour) {
    for (int way = 0; way < (mesh_.v_placement ? 2 : 1); ++way) {
      for (const NcclUse use : {NcclUse::sends, NcclUse::receives}) {
        add_axis(&MeshPlace::pp, neighbour, 1, 1, use);
      }
    }
  }

  const Cluster& cluster_;
  const MeshShape& mesh_;
  int rank_;
  MeshPlace place_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::vector<int> rank_kinds(const Experiment& experiment, const Fold* fold) {
  const Cluster& cluster = experiment.world().cluster;
  const MeshShape& mesh = experiment.plan().options().mesh;
  const ModelOptions& model = experiment.options().model;
  const int ulysses = ulysses_size(model.context_attention, mesh.cp, model.ulysses_degree);
  const bool every_rank =
      all_differ(experiment.scenario().model, experiment.scenario().parallelism);
  // Stage, tp, cp, dp_shard, bytes outside the allocator, and the faults that hit the rank.
  using Kind = std::tuple<int, int, int, int, std::int64_t, double, int>;
  std::set<Kind> seen;
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (fold != nullptr && !fold->runs(rank)) continue;
    if (!every_rank) {
      const MeshPlace place = mesh.place_of(rank);
      const MachineFaults* faults = experiment.faults();
      const int node = cluster.node_of(rank);
      const bool worse = faults != nullptr && has_worse_links(*faults, node);
      const Kind kind{place.pp,
                      experiment.alike().tensor ? 0 : place.tp,
                      place.cp,
                      experiment.alike().first[static_cast<std::size_t>(place.dp_shard)],
                      outside_bytes(cluster, mesh, ulysses, rank),
                      faults == nullptr ? 1.0 : faults->slowdown_of(rank),
                      worse ? node : -1};
      if (!seen.insert(kind).second) continue;
    }
    ranks.push_back(rank);
  }
  return ranks;
}

DeviceMemory::DeviceMemory(FiberWorld& world, const Experiment& experiment)
    : world_(world), experiment_(experiment) {
  const Cluster& cluster = world.options().cluster;
  const MeshShape& mesh = experiment.plan().options().mesh;
  const ModelOptions& model = experiment.options().model;
  const int ulysses = ulysses_size(model.context_attention, mesh.cp, model.ulysses_degree);
  for (const int rank : rank_kinds(experiment, world.options().fold)) {
    MemoryReplay& replay = replays_.try_emplace(rank, world.engine().rank(rank)).first->second;
    replay.set_device(cluster.device.memory_bytes, outside_bytes(cluster, mesh, ulysses, rank));
  }
}

DeviceMemory::Fullest DeviceMemory::fullest() const {
  Fullest most;
  for (const auto& [rank, replay] : replays_) {
    if (most.replay == nullptr || replay.device_peak() > most.replay->device_peak()) {
      most = {rank, &replay};
    }
  }
  return most;
}

void DeviceMemory::add_metrics(std::vector<Metric>& metrics) const {
  std::int64_t allocated = -1;
  std::int64_t last_stage = 0;
  std::int64_t reserved = 0;
  std::int64_t device = 0;
  std::int64_t retries = 0;
  std::string peak;
  const MeshShape& mesh = experiment_.plan().options().mesh;
  for (const auto& [rank, replay] : replays_) {
    const CachingAllocator& allocator = replay.allocator();
    if (allocator.allocated_peak() > allocated) {
      allocated = allocator.allocated_peak();
      peak = fmt::format("{} bytes of {} on rank {}, {:.6f} s into the run", replay.peak().bytes,
                         name_of(replay.peak().category), rank, replay.peak().time.seconds());
    }
    if (mesh.place_of(rank).pp == mesh.pp - 1) {
      last_stage = std::max(last_stage, allocator.allocated_peak());
    }
    reserved = std::max(reserved, allocator.reserved_peak());
    device = std::max(device, replay.device_peak());
    retries = std::max(retries, allocator.retries());
  }
  metrics.push_back({metric::kMemoryAllocatedPeakBytesMax.name, allocated});
  metrics.push_back({metric::kMemoryAllocatedPeakBytesLastStage.name, last_stage});
  metrics.push_back({metric::kMemoryReservedPeakBytesMax.name, reserved});
  metrics.push_back({metric::kMemoryDeviceBytesMax.name, device});
  metrics.push_back({metric::kMemoryAllocatorRetriesMax.name, retries});
  metrics.push_back({metric::kMemoryPeakAllocation.name, peak});
}

bool leaves_margin(const Experiment& experiment, std::int64_t device_bytes) {
  const auto capacity = static_cast<double>(experiment.cluster().device.memory_bytes);
  const double margin = experiment.scenario().execution.memory_margin;
  return static_cast<double>(device_bytes) <= capacity * (1.0 - margin);
}

Check DeviceMemory::check() const {
  if (experiment_.world().has_data) {
    const int rank = world_.fullest_rank();
    const std::int64_t peak = world_.engine().rank(rank).ledger().peak();
    const auto [needed, available] = sizes_apart(peak, capacity());
    return {
        "memory", peak <= capacity(),
        fmt::format("rank {} needs {} at its peak, the device has {}", rank, needed, available)};
  }
  const auto [rank, replay] = fullest();
  const std::int64_t peak = replay->device_peak();
  const auto [needed, available] = sizes_apart(peak, capacity());
  const std::int64_t reserved = replay->allocator().reserved_peak();
  std::string words = fmt::format(
      "rank {} needs {} of device memory at its peak; the device has {}, and {:.3g} % of that "
      "should stay free",
      rank, needed, available, experiment_.scenario().execution.memory_margin * kInPercent);
  if (peak > capacity()) {
    words += fmt::format("; {} in the allocator, {} of CUDA context and NCCL's buffers; {}",
                         format_memory(static_cast<double>(reserved)),
                         format_memory(static_cast<double>(peak - reserved)), kWayOut);
  }
  return {"memory", peak <= capacity(), std::move(words)};
}

std::vector<std::string> DeviceMemory::warnings() const {
  if (experiment_.world().has_data) return {};
  const auto [fullest_rank, fullest_replay] = fullest();
  const std::int64_t peak = fullest_replay->device_peak();
  if (peak > capacity()) return {};  // The check reports it.
  const double margin = experiment_.scenario().execution.memory_margin;
  std::vector<std::string> words;
  if (!leaves_margin(experiment_, peak)) {
    words.push_back(
        fmt::format("rank {} may run out of device memory: it needs {} of {}, and "
                    "execution.memory_margin asks for {:.3g} % to be left; {}",
                    fullest_rank, format_memory(static_cast<double>(peak)),
                    format_memory(static_cast<double>(capacity())), margin * kInPercent, kWayOut));
  }
  for (const auto& [rank, replay] : replays_) {
    if (replay.allocator().retries() == 0) continue;
    words.push_back(
        fmt::format("rank {} fits, but its caching allocator has to give memory back to the "
                    "device, which takes time that is not in the step; times it happens: {}",
                    rank, replay.allocator().retries()));
    break;
  }
  return words;
}

// --- Outside the allocator ---------------------------------------------------------------------

std::int64_t outside_bytes(const Cluster& cluster, const MeshShape& mesh, int ulysses, int rank) {
  Outside outside(cluster, mesh, rank);
  outside.add(cuda_context_of(cluster.device.software));
  if (mesh.tp > 1) {
    outside.add_axis(&MeshPlace::tp, 0, mesh.tp, 1, NcclUse::rings);
  }
  if (mesh.cp > 1) outside.add_context_groups(ulysses);
  outside.add_replicas(WeightKind::dense);
  if (mesh.experts_apart()) outside.add_experts();
  if (mesh.pp > 1) outside.add_pipeline();
  return outside.bytes();
}

}  // namespace shardsim
