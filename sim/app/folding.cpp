#include "sim/app/folding.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/engine.hpp"
#include "sim/kernel/error.hpp"

#include "strategies/mesh.hpp"

#include "sim/app/faults/faults_of.hpp"
#include "sim/app/plan_of.hpp"
#include "sim/app/rank_kinds.hpp"
#include "sim/app/split_recorder.hpp"

namespace shardsim {

namespace {

// What a scenario asks for, or a caller adds, in which ranks may differ; "" if nothing.
std::string obstacle_in(const Scenario& scenario, const RunHooks& hooks) {
  const ParallelismSpec& parallelism = scenario.parallelism;
  if (scenario.execution.tensors == TensorMode::real) {
    return "with real tensors (execution.tensors) every rank has numbers of its own";
  }
  if (hooks.replay != nullptr) return "replayed decisions are those of each rank";
  if (hooks.wrap_world) return "something stands between the ranks and the network";
  if (scenario.model.num_experts > 0) {
    return "routing (model.num_experts) sends each rank's tokens to other experts";
  }
  if (parallelism.is_elastic()) {
    return "members change from step to step (parallelism.elastic_members)";
  }
  if (parallelism.trains_apart()) {
    return "replicas train apart (parallelism.data_parallel)";
  }
  if (parallelism.changes_algorithm()) {
    return parallelism.compresses() ? "gradients are compressed (parallelism.gradient_compression)"
                                    : "gradients are applied late (parallelism.max_staleness)";
  }
  const std::shared_ptr<const MachineFaults> faults = faults_of(scenario);
  if (faults != nullptr && faults->tells_nodes_apart()) {
    return "links of some nodes are worse (faults.slow_links, faults.flapping_links)";
  }
  return "";
}

std::vector<int> representatives(const ParallelPlan& plan, bool folds_tp) {
  const MeshShape& mesh = plan.options().mesh;
  const std::vector<int> alike = first_alike(plan);
  std::vector<int> representative;
  representative.reserve(static_cast<std::size_t>(mesh.size()));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    MeshPlace place = mesh.place_of(rank);
    place.dp_shard = alike[static_cast<std::size_t>(place.dp_shard)];
    place.dp_replicate = 0;
    if (folds_tp) place.tp = 0;
    representative.push_back(mesh.rank_of(place));
  }
  return representative;
}

// By split of the world in program order, what every rank gives to it.
std::vector<std::vector<SplitChoice>> choices_of_all(const MeshShape& shape) {
  std::vector<std::vector<SplitChoice>> choices;
  std::vector<SplitChoice> own;
  for (int rank = 0; rank < shape.size(); ++rank) {
    own.clear();
    SplitRecorder world(rank, shape.size(), &own);
    const Mesh mesh(world, shape);
    choices.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) choices[i].push_back(own[i]);
  }
  return choices;
}

// The first rank that is not as fast as the one that would run in its place; -1 if there is none.
int first_of_other_speed(const Scenario& scenario, const Fold& fold) {
  const std::shared_ptr<const MachineFaults> faults = faults_of(scenario);
  if (faults == nullptr) return -1;
  for (int rank = 0; rank < static_cast<int>(fold.representative.size()); ++rank) {
    const int runs = fold.representative_of(rank);
    if (faults->slowdown_of(rank) == faults->slowdown_of(runs)) continue;
    return faults->slowdown_of(rank) > faults->slowdown_of(runs) ? rank : runs;
  }
  return -1;
}

int num_running(const Fold& fold) {
  int running = 0;
  for (int rank = 0; rank < static_cast<int>(fold.representative.size()); ++rank) {
    if (fold.runs(rank)) ++running;
  }
  return running;
}

void require_few_enough(int running, const Scenario& scenario, const std::string& why) {
  if (running <= Engine::kMaxRanks) return;
  throw LimitError("E0311",
                   fmt::format("{} of {} ranks would have to run, as {}; at most {} can", running,
                               scenario.system.ranks, why, Engine::kMaxRanks),
                   "use fewer nodes, or remove what makes ranks differ");
}

// As many ranks folded as are alike; with their tensor-parallel ranks, which must be, or without.
Folding folding_of(const Scenario& scenario, const ParallelPlan& plan, bool folds_tp) {
  Folding found;
  Fold fold{.representative = representatives(plan, folds_tp), .splits = {}};
  if (num_running(fold) == scenario.system.ranks) {
    found.obstacle = "no two data ranks have shards alike (parallelism.zero_stage)";
    return found;
  }
  const int odd = first_of_other_speed(scenario, fold);
  if (odd >= 0) {
    found.obstacle =
        fmt::format("rank {} computes slower than its replicas (faults.stragglers)", odd);
    return found;
  }
  if (!scenario.output.trace.empty()) {
    for (const std::int64_t rank : scenario.output.trace_ranks) {
      if (fold.runs(static_cast<int>(rank))) continue;
      found.obstacle = fmt::format("rank {} is traced (output.trace_ranks)", rank);
      return found;
    }
  }
  const Cluster cluster = cluster_of(scenario.system);
  for (const std::vector<SplitChoice>& choices : choices_of_all(plan.options().mesh)) {
    fold.splits.push_back(fold_split(fold, choices));
    if (twins_lie_alike(fold.splits.back(), cluster)) continue;
    found.obstacle = "replicas lie on nodes differently (system.gpus_per_node)";
    return found;
  }
  found.fold = std::move(fold);
  return found;
}

}  // namespace

Folding find_folding(const Scenario& scenario, const ParallelPlan& plan, const RunHooks& hooks) {
  std::string obstacle = obstacle_in(scenario, hooks);
  if (!obstacle.empty()) return {.fold = std::nullopt, .obstacle = std::move(obstacle)};
  const MeshShape& mesh = plan.options().mesh;
  if (mesh.tp > 1 && tensor_ranks_alike(plan)) {
    Folding found = folding_of(scenario, plan, /*folds_tp=*/true);
    if (found.fold) return found;
  }
  if (mesh.data_size() == 1) return {.fold = std::nullopt, .obstacle = "there is one replica"};
  return folding_of(scenario, plan, /*folds_tp=*/false);
}

std::optional<Fold> choose_fold(const Scenario& scenario, const ParallelPlan& plan,
                                const RunHooks& hooks, Result& result) {
  const std::string& mode = scenario.execution.fold;
  if (mode == "off") return std::nullopt;
  Folding found = find_folding(scenario, plan, hooks);
  if (found.fold) {
    require_few_enough(num_running(*found.fold), scenario, "replicas own different shards");
    result.assumptions.push_back(
        {fmt::format("{} of {} ranks were run; the others do the same as one of these, and are "
                     "counted with it",
                     num_running(*found.fold), scenario.system.ranks),
         "exact, as all nodes and links are alike: docs/decisions/0035-folding.md"});
    return std::move(found.fold);
  }
  if (mode == "require") {
    throw LimitError("E0310", "execution.fold is \"require\", but " + found.obstacle,
                     "use execution.fold \"auto\", which then runs every rank");
  }
  require_few_enough(static_cast<int>(scenario.system.ranks), scenario, found.obstacle);
  result.warnings.push_back("execution.fold is auto, but every rank was run: " + found.obstacle);
  return std::nullopt;
}

}  // namespace shardsim
