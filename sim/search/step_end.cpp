#include "sim/search/step_end.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "strategies/training/parallel_plan.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/search/priced_group.hpp"

namespace shardsim {

namespace {

// Experiments are large.
constexpr std::size_t kMostExperiments = 64;

// The most runs of modules on one rank: beyond, it takes as long as a simulation, and there is no
// bound.
constexpr std::size_t kMostRuns = 200'000;

// A run zeroes a buffer when its first gradient comes, maybe in a pause. Here it is first seen when
// it is reduced, which is too late.
constexpr const char* kFreeOp = "zero_gradients";

bool is_priced(const std::string& /*name*/) { return true; }

class EndProbe {
 public:
  EndProbe(const Experiment& machine, NetworkModel& network, const ParallelPlan& plan, int rank)
      : plan_(plan),
        shape_(plan.options().mesh),
        runtime_(machine.cluster().device, clock_, kFreeOp),
        world_({.clock = clock_,
                .network = network,
                .cluster = machine.cluster(),
                .algorithm = machine.world().all_reduce_algorithm,
                .is_priced = is_priced},
               shape_.size(), shape_.rank_of({.pp = rank})),
        mesh_(world_, shape_),
        sync_(plan.make_sync(runtime_, mesh_)),
        parallel_(plan.make_parallel(mesh_)),
        session_(plan.make_session(runtime_, mesh_, *sync_, parallel_.ends(), observer_)) {
    clock_.now = Time();
  }

  std::int64_t run(const PipelineStages& stages, const RankTimes& times) {
    const Model& model = *plan_.stage(mesh_.pp()).model;
    std::vector<std::int64_t> left(index_of(model.num_chunks()), 0);
    for (const RankTimes::Start& start : times.starts) {
      if (releases_activation(start.kind)) ++left[index_of(start.chunk)];
    }
    const bool runs_all = plan_.options().zero_stage >= 2;
    if (runs_all && times.starts.size() * index_of(model.num_modules()) > kMostRuns) return 0;
    sync_->begin_step();
    // ZeRO-2 and 3 make, and may reduce, buffers for each microbatch; else only the last counts.
    for (const RankTimes::Start& start : times.starts) {
      const bool gives_gradients = releases_activation(start.kind);
      const bool is_last = gives_gradients && --left[index_of(start.chunk)] == 0;
      if (!runs_all && !is_last) continue;
      advance_to(start.time);
      if (gives_gradients) sync_->begin_weight_gradients(start.chunk, is_last);
      run(stages, start, model.modules_of_chunk(start.chunk));
    }
    advance_to(times.end);
    session_->reduce_gradients();
    session_->update();
    return clock_.now.picoseconds();
  }

 private:
  void advance_to(std::int64_t picoseconds) {
    clock_.now = max(clock_.now, Time::from_picoseconds(picoseconds));
  }

  // Shows the synchronization the modules of an action, each for its least time.
  void run(const PipelineStages& stages, const RankTimes::Start& start,
           const ModuleRange& modules) {
    const int stage = plan_.schedule().stage_of(mesh_.pp(), start.chunk);
    const std::vector<const ModuleCost*> costs = stages.modules_of(index_of(stage));
    reported_.clear();
    if (start.kind == ActionKind::forward) {
      for (int i = 0; i < modules.count; ++i) {
        sync_->before_forward(modules.first + i);
        take(costs[index_of(i)]->forward);
        sync_->after_forward(modules.first + i);
      }
      return;
    }
    for (int i = modules.count; i-- > 0;) {
      const BackwardParts parts = costs[index_of(i)]->parts(stages.schedule->backward);
      backward(start.kind, modules.first + i, parts);
    }
    if (start.kind != ActionKind::backward_weight) return;
    for (int i = modules.count; i-- > 0;) sync_->after_weight_gradients(modules.first + i);
  }

  void backward(ActionKind kind, int module, const BackwardParts& parts) {
    if (kind == ActionKind::backward_weight) return take(parts.weight, module);
    sync_->before_backward(module);
    if (kind == ActionKind::backward_input) {
      take(parts.input);
    } else {
      take(parts.input + parts.weight, module);
    }
    sync_->after_backward(module);
    if (kind == ActionKind::backward) sync_->after_weight_gradients(module);
  }

  // A module's gradients come at some time within it: at the earliest when it begins, in the order
  // of their buckets. Experts and other weights do not wait for each other here.
  void take(std::int64_t picoseconds, int module) {
    const Time begin = clock_.now;
    Time end = begin + Time::from_picoseconds(picoseconds);
    for (const WeightKind kind : {WeightKind::dense, WeightKind::expert}) {
      clock_.now = begin;
      for (const int parameter : parameters_of(module, kind)) {
        if (reported_.insert(parameter).second) sync_->gradient_ready(parameter);
      }
      end = max(end, clock_.now);
    }
    clock_.now = end;
  }

  [[nodiscard]] std::vector<int> parameters_of(int module, WeightKind kind) const {
    const Model& model = *plan_.stage(mesh_.pp()).model;
    std::vector<int> found;
    for (const int parameter : model.parameters_of(module)) {
      const bool is_expert = shape_.experts_apart() && spec_of(model, parameter).expert;
      if (is_expert == (kind == WeightKind::expert)) found.push_back(parameter);
    }
    if (found.empty()) return found;
    const FlatLayout& layout = plan_.layout(mesh_.pp(), kind);
    std::ranges::sort(found, {}, [&](int parameter) {
      const FlatPlace& place = layout.place(parameter);
      return std::pair(place.chunk, place.offset);
    });
    return found;
  }

  void take(std::int64_t picoseconds) { clock_.now += Time::from_picoseconds(picoseconds); }

  const ParallelPlan& plan_;
  MeshShape shape_;
  ProbeClock clock_;
  ProbeRuntime runtime_;
  PricedWorld world_;
  Mesh mesh_;
  TrainingObserver observer_;
  std::unique_ptr<GradientSync> sync_;
  RankParallel parallel_;
  std::unique_ptr<TrainingSession> session_;
  std::set<int> reported_;  // By this action: one that several modules read counts once.
};

}  // namespace

StepEnds::StepEnds(const SearchBase& base)
    : base_(base),
      machine_(std::make_unique<const Experiment>(base.scenario)),
      network_(make_network_model(machine_->cluster())) {}

StepEnds::~StepEnds() = default;

const Experiment& StepEnds::experiment_of(const Candidate& candidate) {
  const std::array<std::int64_t, 9> key = {
      candidate.tp,
      candidate.cp,
      candidate.pp,
      candidate.ep,
      candidate.vpp,
      candidate.dp_replicate,
      candidate.zero_stage,
      candidate.sequence_parallel ? 1 : 0,
      schedule_row_of(candidate.schedule).placement == Placement::v ? 1 : 0};
  const auto known = experiments_.find(key);
  if (known != experiments_.end()) return *known->second;
  if (experiments_.size() == kMostExperiments) experiments_.clear();
  auto made = std::make_unique<const Experiment>(scenario_of(base_, candidate));
  return *experiments_.emplace(key, std::move(made)).first->second;
}

std::int64_t StepEnds::least_step(const Candidate& candidate, const PipelineStages& stages,
                                  const PlayedPipeline& played) {
  const ParallelPlan& plan = experiment_of(candidate).plan();
  std::int64_t least = 0;
  for (const RankTimes& times : played.ranks) {
    least = std::max(least, EndProbe(*machine_, *network_, plan, times.rank).run(stages, times));
  }
  return least;
}

}  // namespace shardsim
