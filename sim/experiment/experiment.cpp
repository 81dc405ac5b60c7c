#include "sim/experiment/experiment.hpp"

#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/error.hpp"

#include "backends/call.hpp"
#include "backends/communicator.hpp"

#include "strategies/mesh.hpp"

#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/derive.hpp"

namespace shardsim {

namespace {

// --- Splits of ranks that do not run -----------------------------------------------------------

[[noreturn]] void refuse(const std::string& call) {
  throw Error(ExitCode::internal, "E7007",
              call + " of a rank that only says how it splits the world",
              "use execution.fold \"off\", and please report this scenario");
}

// The communicator of all ranks, for a rank that does not run. It only records the groups that the
// rank forms of it. These groups can be split and dropped.
class SplitRecorder final : public Communicator {
 public:
  // `groups`: gets one entry per split, and outlives this; null: nothing is recorded.
  SplitRecorder(int rank, int size, std::vector<RankSpan>* groups)
      : rank_(rank), size_(size), groups_(groups) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override {
    static const std::string kName = "world";
    return kName;
  }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(const RankSpan& members,
                                                       const std::string& /*name*/,
                                                       CallSite /*site*/) override {
    if (groups_ != nullptr) groups_->push_back(members);
    if (members.size == 0) return nullptr;
    return std::make_unique<SplitRecorder>(members.member_of(rank_), members.size, nullptr);
  }

  // They throw an internal Error.
  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/,
                                                    const std::string& name,
                                                    CallSite /*site*/) override {
    refuse("a split by colors to " + name);
  }
  Work post(const Call& call) override { refuse(call.record.name); }
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action,
                                       CallSite /*site*/) const override {
    refuse(action);
  }

 private:
  int rank_;
  int size_;
  std::vector<RankSpan>* groups_;
};

// --- Folding -----------------------------------------------------------------------------------

// For each dp_shard, the first one that has equal shards of a stage's weights.
std::vector<int> first_alike(const ParallelPlan& plan, int stage) {
  const MeshShape& mesh = plan.options().mesh;
  const std::vector<bool> has_marks = shards_with_marks(plan, stage, WeightKind::dense);
  const auto is_marked = [&](int dp_shard) {
    for (int cp = 0; cp < mesh.cp; ++cp) {
      const int shard = mesh.shard_of({.cp = cp, .dp_shard = dp_shard});
      if (has_marks[static_cast<std::size_t>(shard)]) return true;
    }
    return false;
  };
  std::map<std::vector<std::int64_t>, int> first;
  std::vector<int> alike;
  int plain = -1;  // The first one without marks.
  for (int dp_shard = 0; dp_shard < mesh.dp_shard; ++dp_shard) {
    const bool marked = is_marked(dp_shard);
    if (!marked && plain >= 0) {
      alike.push_back(alike[static_cast<std::size_t>(plain)]);
      continue;
    }
    if (!marked) plain = dp_shard;
    std::vector<std::int64_t> signature;
    for (int cp = 0; cp < mesh.cp; ++cp) {
      const int shard = mesh.shard_of({.cp = cp, .dp_shard = dp_shard});
      const std::vector<std::int64_t> own = shard_signature(plan, stage, shard, WeightKind::dense);
      signature.push_back(static_cast<std::int64_t>(own.size()));
      signature.insert(signature.end(), own.begin(), own.end());
    }
    alike.push_back(first.try_emplace(std::move(signature), dp_shard).first->second);
  }
  return alike;
}

// For each tp, the first one where the same number of elements fills up each parameter.
std::vector<int> first_tensor_alike(const ParallelPlan& plan, int stage) {
  if (plan.options().model.overlaps_tensor_parallel) {  // Round a ring each has other neighbours.
    std::vector<int> each(static_cast<std::size_t>(plan.options().mesh.tp));
    std::iota(each.begin(), each.end(), 0);
    return each;
  }
  std::vector<std::vector<std::int64_t>> filling(static_cast<std::size_t>(plan.options().mesh.tp));
  for (const ParameterSpec& spec : plan.stage(stage).model->parameters()) {
    if (!spec.is_split_over(SplitRanks::tensor)) continue;
    for (std::size_t tp = 0; tp < filling.size(); ++tp) {
      const PartIndex rank{.tensor = static_cast<int>(tp)};
      filling[tp].push_back(num_filling(spec, rank.of(spec), 0, spec.shape.numel()));
    }
  }
  std::vector<int> alike;
  for (const auto& own : filling) {
    alike.push_back(static_cast<int>(std::ranges::find(filling, own) - filling.begin()));
  }
  return alike;
}

std::vector<int> first_experts_alike(const ParallelPlan& plan, int stage) {
  std::map<std::vector<std::int64_t>, int> first;
  std::vector<int> alike;
  for (int shard = 0; shard < plan.options().mesh.num_shards(WeightKind::expert); ++shard) {
    alike.push_back(
        first.try_emplace(shard_signature(plan, stage, shard, WeightKind::expert), shard)
            .first->second);
  }
  return alike;
}

// The feature of the scenario that lets ranks differ; "" if there is none.
std::string obstacle_in(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const ParallelismSpec& parallelism = scenario.parallelism;
  if (scenario.execution.tensors == TensorMode::real) {
    return "with real tensors (execution.tensors) every rank has numbers of its own";
  }
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
  const MachineFaults* faults = experiment.faults();
  if (faults != nullptr && faults->tells_nodes_apart()) {
    return "links of some nodes are worse (faults.slow_links, faults.flapping_links)";
  }
  return "";
}

// Whether a rank's group has the members that `like` has around it.
bool lies_like(const RankSpan& group, const RankSpan& like, int rank) {
  if (group.size != like.size) return false;
  if (group.size == 0) return true;
  const RankSpan around = like.around(rank);
  return group.rank(0) == around.rank(0) &&
         group.rank(group.size - 1) == around.rank(group.size - 1);
}

Fold fold_of(const Experiment& experiment, bool folds_tp) {
  const MeshShape& mesh = experiment.plan().options().mesh;
  const std::vector<int> alike = experiment.alike().first_shards();
  return fold_ranks(mesh.size(), [&](int rank) {
    MeshPlace place = mesh.place_of(rank);
    place.dp_shard = alike[static_cast<std::size_t>(place.dp_shard)];
    place.dp_replicate = 0;
    if (folds_tp) place.tp = 0;
    return mesh.rank_of(place);
  });
}

// The groups that a rank forms of the world, in program order.
std::vector<RankSpan> groups_of(const MeshShape& shape, int rank) {
  std::vector<RankSpan> groups;
  SplitRecorder world(rank, shape.size(), &groups);
  const Mesh mesh(world, shape);
  return groups;
}

// By split of the world, the groups of all ranks that run. The last rank that each of them
// represents shows that its groups lie like these.
std::vector<std::vector<RankSpan>> groups_of_running(const MeshShape& shape, const Fold& fold) {
  std::vector<int> last(fold.running);
  for (int rank = 0; rank < fold.num_ranks(); ++rank) {
    last[static_cast<std::size_t>(fold.place_of[static_cast<std::size_t>(rank)])] = rank;
  }
  std::vector<std::vector<RankSpan>> splits;
  for (std::size_t place = 0; place < last.size(); ++place) {
    const std::vector<RankSpan> own = groups_of(shape, fold.running[place]);
    const std::vector<RankSpan> others = groups_of(shape, last[place]);
    splits.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!lies_like(others.at(i), own[i], last[place])) {
        refuse_folded(
            fmt::format("rank {} forms other groups than the one that stands for it", last[place]));
      }
      splits[i].push_back(own[i]);
    }
  }
  return splits;
}

// The first rank that is not as fast as the one that would run in its place; -1 if there is none.
int first_of_other_speed(const MachineFaults& faults, const Fold& fold) {
  for (int rank = 0; rank < fold.num_ranks(); ++rank) {
    const int runs = fold.representative_of(rank);
    if (faults.slowdown_of(rank) == faults.slowdown_of(runs)) continue;
    return faults.slowdown_of(rank) > faults.slowdown_of(runs) ? rank : runs;
  }
  return -1;
}

// Folds all ranks that are alike; `folds_tp` adds tensor-parallel ranks, which must be alike.
Folding folding_with(const Experiment& experiment, bool folds_tp) {
  Folding found;
  Fold fold = fold_of(experiment, folds_tp);
  if (fold.running.size() == fold.place_of.size()) {
    found.obstacle = "no two data ranks have shards alike (parallelism.zero_stage)";
    return found;
  }
  const MachineFaults* faults = experiment.faults();
  const int odd = faults == nullptr ? -1 : first_of_other_speed(*faults, fold);
  if (odd >= 0) {
    found.obstacle =
        fmt::format("rank {} computes slower than its replicas (faults.stragglers)", odd);
    return found;
  }
  const OutputSpec& output = experiment.scenario().output;
  if (!output.trace.empty()) {
    for (const std::int64_t rank : output.trace_ranks) {
      if (fold.runs(static_cast<int>(rank))) continue;
      found.obstacle = fmt::format("rank {} is traced (output.trace_ranks)", rank);
      return found;
    }
  }
  const MeshShape& mesh = experiment.plan().options().mesh;
  for (const std::vector<RankSpan>& groups : groups_of_running(mesh, fold)) {
    fold.splits.push_back(fold_split(fold, groups));
    if (twins_lie_alike(fold.splits.back(), experiment.cluster())) continue;
    found.obstacle = "replicas lie on nodes differently (system.gpus_per_node)";
    return found;
  }
  found.fold = std::move(fold);
  return found;
}

}  // namespace

Experiment::Experiment(Scenario scenario, const ScheduleEdit& edit)
    : scenario_(std::move(scenario)),
      cluster_(cluster_of(scenario_.system)),
      options_(parallel_options_of(scenario_, software())),
      optimizer_(optimizer_of(scenario_.training)) {
  ++derivations().experiments;
  world_ = fiber_options_of(scenario_, cluster_, options_.mesh);
  if (!edit) return;
  if (!options_.own_schedule) {
    options_.own_schedule = make_schedule(options_.schedule, shape_of(options_));
  }
  edit(*options_.own_schedule);
}

std::int64_t Experiment::owned_bytes(bool matrices) const {
  const SyncPlan& sync = options_.sync;
  const std::size_t copies = sync.master_dtype == sync.weight_dtype ? 0 : 1;
  const bool of_muon = matrices && sync.muon;
  const std::size_t states = of_muon ? 1 : optimizer_->state_names().size();
  return size_of(sync.master_dtype) * static_cast<std::int64_t>(copies) +
         size_of(sync.state(of_muon)) * static_cast<std::int64_t>(states);
}

const ParallelPlan& Experiment::plan() const {
  if (!plan_) {
    ++derivations().plans;
    plan_.emplace(options_, *optimizer_);
  }
  return *plan_;
}

const AlikeRanks& Experiment::alike() const {
  if (!alike_) alike_ = alike_ranks_of(plan());
  return *alike_;
}

const Folding& Experiment::folding() const {
  if (!folding_) folding_ = folding_of(*this);
  return *folding_;
}

const std::vector<Assumption>& Experiment::assumptions() const {
  if (!assumptions_) assumptions_ = assumptions_of(*this);
  return *assumptions_;
}

Experiment compile(Scenario scenario, const ScheduleEdit& edit) {
  return Experiment(std::move(scenario), edit);
}

// --- Folding -----------------------------------------------------------------------------------

bool AlikeRanks::all_tensor() const {
  return std::ranges::all_of(tensor, [](const std::vector<int>& of_stage) {
    return std::ranges::all_of(of_stage, [](int tp) { return tp == 0; });
  });
}

std::vector<int> AlikeRanks::first_shards() const {
  std::map<std::vector<int>, int> first;
  std::vector<int> alike;
  for (std::size_t dp_shard = 0; dp_shard < shards.front().size(); ++dp_shard) {
    std::vector<int> of_stages;
    for (const std::vector<int>& of_stage : shards) of_stages.push_back(of_stage[dp_shard]);
    const auto own = static_cast<int>(dp_shard);
    alike.push_back(first.try_emplace(std::move(of_stages), own).first->second);
  }
  return alike;
}

AlikeRanks alike_ranks_of(const ParallelPlan& plan) {
  ++derivations().alike;
  const MeshShape& mesh = plan.options().mesh;
  AlikeRanks alike;
  for (int stage = 0; stage < mesh.pp; ++stage) {
    alike.shards.push_back(first_alike(plan, stage));
    alike.tensor.push_back(first_tensor_alike(plan, stage));
    if (mesh.experts_apart()) alike.experts.push_back(first_experts_alike(plan, stage));
  }
  return alike;
}

Folding folding_of(const Experiment& experiment) {
  ++derivations().foldings;
  std::string obstacle = obstacle_in(experiment);
  if (!obstacle.empty()) return {.fold = std::nullopt, .obstacle = std::move(obstacle)};
  const MeshShape& mesh = experiment.mesh();
  if (mesh.tp > 1 && experiment.alike().all_tensor()) {
    Folding found = folding_with(experiment, /*folds_tp=*/true);
    if (found.fold) return found;
  }
  if (mesh.data_size() == 1) return {.fold = std::nullopt, .obstacle = "there is one replica"};
  return folding_with(experiment, /*folds_tp=*/false);
}

}  // namespace shardsim
