#include "sim/run/rank_kinds.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "strategies/mesh.hpp"

#include "sim/run/outside_bytes.hpp"

namespace shardsim {

namespace {

// Whether each rank may hold something different.
bool all_differ(const ModelSpec& model, const ParallelismSpec& parallelism) {
  return model.num_experts > 0 || parallelism.is_elastic() || parallelism.trains_apart() ||
         parallelism.changes_algorithm();
}

bool has_worse_links(const MachineFaults& faults, int node) {
  const auto is_here = [node](const auto& link) { return link.node == node; };
  return std::any_of(faults.slow_links.begin(), faults.slow_links.end(), is_here) ||
         std::any_of(faults.flapping_links.begin(), faults.flapping_links.end(), is_here);
}

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

}  // namespace shardsim
