#include "sim/run/device_memory.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/hardware/outside_memory.hpp"
#include "sim/hardware/software.hpp"

#include "backends/rank_span.hpp"

#include "strategies/mesh_groups.hpp"

#include "reports/units.hpp"

namespace shardsim {

namespace {

// Whether each rank may hold something different.
bool all_differ(const ModelSpec& model, const ParallelismSpec& parallelism) {
  return model.num_experts > 0 || parallelism.is_elastic() || parallelism.trains_apart() ||
         parallelism.changes_algorithm();
}

int ulysses_of(const Experiment& experiment) {
  const ModelOptions& model = experiment.options().model;
  const MeshShape& mesh = experiment.plan().options().mesh;
  return ulysses_size(model.context_attention, mesh.cp, model.ulysses_degree);
}

bool has_worse_links(const MachineFaults& faults, int node) {
  const auto is_here = [node](const auto& link) { return link.node == node; };
  return std::ranges::any_of(faults.slow_links, is_here) ||
         std::ranges::any_of(faults.flapping_links, is_here);
}

constexpr double kInPercent = 100.0;
constexpr const char* kWaysToFit = "shard more, use smaller microbatches, or recompute activations";

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
  Outside(const Cluster& cluster, int rank) : cluster_(cluster), rank_(rank) {}

  void add(const SourcedBytes& context) { bytes_ += context.bytes; }

  // Adds a communicator of the rank.
  void add(const RankSpan& group, NcclUse use) {
    NcclPeers peers;
    for (int member = 0; member < group.size; ++member) {
      const int other = group.rank(member);
      if (other == rank_) continue;
      ++(cluster_.node_of(other) == cluster_.node_of(rank_) ? peers.near : peers.far);
      if (use == NcclUse::rings && peers.far > 0) break;
    }
    bytes_ += nccl_buffer_bytes(peers, use);
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  const Cluster& cluster_;
  int rank_;
  std::int64_t bytes_ = 0;
};

void add_context_groups(Outside& outside, const MeshShape& mesh, const MeshPlace& place,
                        int ulysses) {
  if (ulysses == 1 || ulysses == mesh.cp) {
    outside.add(context_group(mesh, place), ulysses == 1 ? NcclUse::rings : NcclUse::all_to_all);
    return;
  }
  // The group of all cp ranks only creates these two groups.
  outside.add(ulysses_group(mesh, place, ulysses), NcclUse::all_to_all);
  outside.add(ring_group(mesh, place, ulysses), NcclUse::rings);
}

void add_replicas(Outside& outside, const MeshShape& mesh, const MeshPlace& place,
                  WeightKind kind) {
  outside.add(shard_group(mesh, place, kind), NcclUse::rings);
  outside.add(replicate_group(mesh, place), NcclUse::rings);
  outside.add(owner_group(mesh, place, kind), NcclUse::rings);
}

// Each direction to a neighbour has its own communicator. With V placement, chunks that go up the
// ranks have their own, too.
void add_edges(Outside& outside, const MeshShape& mesh, const MeshPlace& place, int neighbour) {
  for (int way = 0; way < (mesh.v_placement ? 2 : 1); ++way) {
    outside.add(edge_group(mesh, place, place.pp, neighbour), NcclUse::sends);
    outside.add(edge_group(mesh, place, neighbour, place.pp), NcclUse::receives);
  }
}

void add_pipeline(Outside& outside, const MeshShape& mesh, const MeshPlace& place) {
  const int last = mesh.pp - 1;
  outside.add(pipeline_group(mesh, place), NcclUse::rings);
  if (place.pp == 0 || place.pp == last) {
    outside.add(embedding_group(mesh, place), NcclUse::rings);
  }
  const bool has_ring = !mesh.v_placement;
  if (has_ring || place.pp < last) add_edges(outside, mesh, place, (place.pp + 1) % mesh.pp);
  if (has_ring || place.pp > 0) add_edges(outside, mesh, place, (place.pp + last) % mesh.pp);
}

}  // namespace

namespace {

// Bytes outside the allocator, and the faults that hit a rank.
using Surroundings = std::tuple<std::int64_t, double, int>;

class SurroundingsOf {
 public:
  explicit SurroundingsOf(const Experiment& experiment)
      : experiment_(experiment), ulysses_(ulysses_of(experiment)) {}

  [[nodiscard]] Surroundings operator()(int rank) const {
    const Cluster& cluster = experiment_.world().cluster;
    const MachineFaults* faults = experiment_.faults();
    const int node = cluster.node_of(rank);
    const bool worse = faults != nullptr && has_worse_links(*faults, node);
    return {outside_bytes(cluster, experiment_.plan().options().mesh, ulysses_, rank),
            faults == nullptr ? 1.0 : faults->slowdown_of(rank), worse ? node : -1};
  }

 private:
  const Experiment& experiment_;
  int ulysses_;
};

}  // namespace

std::vector<int> rank_kinds(const Experiment& experiment, const Fold* fold) {
  const MeshShape& mesh = experiment.plan().options().mesh;
  const bool every_rank =
      all_differ(experiment.scenario().model, experiment.scenario().parallelism);
  const SurroundingsOf surroundings(experiment);
  // Stage, tp, cp and dp_shard.
  std::set<std::tuple<int, int, int, int, Surroundings>> seen;
  std::vector<int> ranks;
  const int count = fold == nullptr ? mesh.size() : static_cast<int>(fold->running.size());
  for (int i = 0; i < count; ++i) {
    const int rank = fold == nullptr ? i : fold->running[static_cast<std::size_t>(i)];
    if (!every_rank) {
      const MeshPlace place = mesh.place_of(rank);
      const AlikeRanks& alike = experiment.alike();
      const bool is_new = seen.emplace(place.pp, alike.first_tensor(place), place.cp,
                                       alike.first_shard(place), surroundings(rank))
                              .second;
      if (!is_new) continue;
    }
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> rank_kinds(const Experiment& experiment, const std::vector<int>& program_of) {
  const SurroundingsOf surroundings(experiment);
  std::set<std::tuple<int, Surroundings>> seen;
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(program_of.size()); ++rank) {
    const int program = program_of[static_cast<std::size_t>(rank)];
    if (seen.emplace(program, surroundings(rank)).second) ranks.push_back(rank);
  }
  return ranks;
}

DeviceMemory::DeviceMemory(World& world, const Experiment& experiment,
                           const std::vector<int>& kinds)
    : world_(world), experiment_(experiment) {
  const Cluster& cluster = world.cluster();
  const MeshShape& mesh = experiment.plan().options().mesh;
  const int ulysses = ulysses_of(experiment);
  for (const int rank : kinds) {
    watched_[rank] =
        world.watch_memory(rank, {.capacity = cluster.device.memory_bytes,
                                  .outside = outside_bytes(cluster, mesh, ulysses, rank),
                                  .kept = cluster.device.workspaces.blocks()});
  }
}

DeviceMemory::Fullest DeviceMemory::fullest() const {
  Fullest most{-1, {}};
  for (const auto& [rank, memory] : watched_) {
    const DeviceMemoryUse use = memory->use();
    if (most.rank < 0 || use.device_peak > most.use.device_peak) most = {rank, use};
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
  for (const auto& [rank, memory] : watched_) {
    const DeviceMemoryUse use = memory->use();
    if (use.allocated_peak > allocated) {
      allocated = use.allocated_peak;
      peak = fmt::format("{} bytes of {} on rank {}, {:.6f} s into the run", use.peak.bytes,
                         name_of(use.peak.category), rank, use.peak.time.seconds());
    }
    if (mesh.place_of(rank).pp == mesh.pp - 1) {
      last_stage = std::max(last_stage, use.allocated_peak);
    }
    reserved = std::max(reserved, use.reserved_peak);
    device = std::max(device, use.device_peak);
    retries = std::max(retries, use.retries);
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
    const std::int64_t peak = world_.ledger(rank).peak();
    const auto [needed, available] = sizes_apart(peak, capacity());
    return {
        "memory", peak <= capacity(),
        fmt::format("rank {} needs {} at its peak, the device has {}", rank, needed, available)};
  }
  const auto [rank, use] = fullest();
  const std::int64_t peak = use.device_peak;
  const auto [needed, available] = sizes_apart(peak, capacity());
  const std::int64_t reserved = use.reserved_peak;
  std::string words = fmt::format(
      "rank {} needs {} of device memory at its peak; the device has {}, and {:.3g} % of that "
      "should stay free",
      rank, needed, available, experiment_.scenario().execution.memory_margin * kInPercent);
  if (peak > capacity()) {
    words += fmt::format("; {} in the allocator, {} of CUDA context and NCCL's buffers; {}",
                         format_memory(static_cast<double>(reserved)),
                         format_memory(static_cast<double>(peak - reserved)), kWaysToFit);
  }
  return {"memory", peak <= capacity(), std::move(words)};
}

std::vector<std::string> DeviceMemory::warnings() const {
  if (experiment_.world().has_data) return {};
  const auto [fullest_rank, fullest_use] = fullest();
  const std::int64_t peak = fullest_use.device_peak;
  if (peak > capacity()) return {};  // The check reports it.
  const double margin = experiment_.scenario().execution.memory_margin;
  std::vector<std::string> words;
  if (!leaves_margin(experiment_, peak)) {
    words.push_back(fmt::format(
        "rank {} may run out of device memory: it needs {} of {}, and "
        "execution.memory_margin asks for {:.3g} % to be left; {}",
        fullest_rank, format_memory(static_cast<double>(peak)),
        format_memory(static_cast<double>(capacity())), margin * kInPercent, kWaysToFit));
  }
  for (const auto& [rank, memory] : watched_) {
    const std::int64_t retries = memory->use().retries;
    if (retries == 0) continue;
    words.push_back(
        fmt::format("rank {} fits, but its caching allocator has to give memory back to the "
                    "device, which takes time that is not in the step; times it happens: {}",
                    rank, retries));
    break;
  }
  return words;
}

// --- Outside the allocator ---------------------------------------------------------------------

std::int64_t outside_bytes(const Cluster& cluster, const MeshShape& mesh, int ulysses, int rank) {
  const MeshPlace place = mesh.place_of(rank);
  Outside outside(cluster, rank);
  outside.add(cuda_context_of(cluster.device.software));
  outside.add(tensor_group(mesh, place), NcclUse::rings);
  for (const int copies : mesh.tp_copies) {
    outside.add(tensor_copies_group(mesh, place, copies), NcclUse::rings);
    if (!mesh.joins_tp_parts) continue;
    outside.add(tensor_parts_group(mesh, place, copies), NcclUse::rings);
  }
  add_context_groups(outside, mesh, place, ulysses);
  add_replicas(outside, mesh, place, WeightKind::dense);
  if (mesh.experts_apart()) {
    const bool by_node = mesh.dispatch_nodes > 0;
    outside.add(expert_group(mesh, place), by_node ? NcclUse::rings : NcclUse::all_to_all);
    if (by_node) {
      outside.add(expert_across_group(mesh, place), NcclUse::all_to_all);
      outside.add(expert_inside_group(mesh, place), NcclUse::all_to_all);
    }
    outside.add(expert_tensor_group(mesh, place), NcclUse::rings);
    if (mesh.ep > 1 && mesh.etp > 1) outside.add(all_experts_group(mesh, place), NcclUse::rings);
    add_replicas(outside, mesh, place, WeightKind::expert);
  }
  if (mesh.pp > 1) add_pipeline(outside, mesh, place);
  return outside.bytes();
}

}  // namespace shardsim
