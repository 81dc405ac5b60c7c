#include "sim/app/rank_kinds.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "strategies/mesh.hpp"
#include "strategies/training/shard_signature.hpp"

#include "sim/app/outside_bytes.hpp"

namespace shardsim {

namespace {

// Whether each rank may hold something different.
bool all_differ(const Scenario& scenario) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  return scenario.model.num_experts > 0 || parallelism.is_elastic() || parallelism.trains_apart() ||
         parallelism.changes_algorithm();
}

bool has_worse_links(const MachineFaults& faults, int node) {
  const auto is_here = [node](const auto& link) { return link.node == node; };
  return std::any_of(faults.slow_links.begin(), faults.slow_links.end(), is_here) ||
         std::any_of(faults.flapping_links.begin(), faults.flapping_links.end(), is_here);
}

}  // namespace

std::vector<int> first_alike(const ParallelPlan& plan) {
  const MeshShape& mesh = plan.options().mesh;
  std::map<std::vector<std::int64_t>, int> first;
  std::vector<int> alike;
  for (int dp_shard = 0; dp_shard < mesh.dp_shard; ++dp_shard) {
    std::vector<std::int64_t> signature;
    for (int cp = 0; cp < mesh.cp; ++cp) {
      const MeshPlace place{.cp = cp, .dp_shard = dp_shard};
      const std::vector<std::int64_t> of_shard = shard_signature(plan, mesh.shard_of(place));
      signature.push_back(static_cast<std::int64_t>(of_shard.size()));
      signature.insert(signature.end(), of_shard.begin(), of_shard.end());
    }
    alike.push_back(first.try_emplace(std::move(signature), dp_shard).first->second);
  }
  return alike;
}

bool tensor_ranks_alike(const ParallelPlan& plan) {
  const MeshShape& mesh = plan.options().mesh;
  for (int stage = 0; stage < mesh.pp; ++stage) {
    for (const ParameterSpec& spec : plan.stage(stage).model->parameters()) {
      if (!spec.is_split_over(SplitRanks::tensor)) continue;
      for (int tp = 0; tp < mesh.tp; ++tp) {
        if (num_filling(spec, tp, 0, spec.shape.numel()) > 0) return false;
      }
    }
  }
  return true;
}

std::vector<int> rank_kinds(const Scenario& scenario, const ParallelPlan& plan,
                            const Cluster& cluster, const Fold* fold) {
  const MeshShape& mesh = plan.options().mesh;
  const ModelOptions& model = plan.options().model;
  const int ulysses = ulysses_size(model.context_attention, mesh.cp, model.ulysses_degree);
  const bool every_rank = all_differ(scenario);
  const std::vector<int> alike = every_rank ? std::vector<int>() : first_alike(plan);
  const bool tensor_alike = !every_rank && tensor_ranks_alike(plan);
  // Stage, tp, cp, dp_shard, bytes outside the allocator, and the faults that hit the rank.
  using Kind = std::tuple<int, int, int, int, std::int64_t, double, int>;
  std::set<Kind> seen;
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (fold != nullptr && !fold->runs(rank)) continue;
    if (!every_rank) {
      const MeshPlace place = mesh.place_of(rank);
      const MachineFaults* faults = cluster.faults.get();
      const int node = cluster.node_of(rank);
      const bool worse = faults != nullptr && has_worse_links(*faults, node);
      const Kind kind{place.pp,
                      tensor_alike ? 0 : place.tp,
                      place.cp,
                      alike[static_cast<std::size_t>(place.dp_shard)],
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
