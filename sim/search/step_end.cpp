#include "sim/search/step_end.hpp"

#include <algorithm>
#include <set>

#include "strategies/training/parallel_plan.hpp"

#include "sim/search/priced_group.hpp"

namespace shardsim {

namespace {

// Experiments are large.
constexpr std::size_t kMostExperiments = 64;

bool is_priced(const std::string& /*name*/) { return true; }

class EndProbe {
 public:
  EndProbe(const Experiment& machine, NetworkModel& network, const ParallelPlan& plan, int rank)
      : plan_(plan),
        shape_(plan.options().mesh),
        runtime_(machine.cluster().device, clock_),
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
    sync_->begin_step();
    for (const RankTimes::Gradients& gradients : times.gradients) report(stages, gradients);
    advance_to(times.end);
    session_->reduce_gradients();
    session_->update();
    return clock_.now.picoseconds();
  }

 private:
  void advance_to(std::int64_t picoseconds) {
    clock_.now = max(clock_.now, Time::from_picoseconds(picoseconds));
  }

  // A module's gradients are not there before the backwards of those behind it have ended.
  void report(const PipelineStages& stages, const RankTimes::Gradients& gradients) {
    const Model& model = *plan_.stage(mesh_.pp()).model;
    const int stage = plan_.schedule().stage_of(mesh_.pp(), gradients.chunk);
    const std::vector<BackwardParts> backwards = stages.backwards_of(index_of(stage));
    const ModuleRange modules = model.modules_of_chunk(gradients.chunk);
    std::int64_t now = gradients.start;
    sync_->begin_weight_gradients(gradients.chunk, /*last=*/true);
    for (int i = modules.count; i-- > 0;) {
      advance_to(now);
      for (const int parameter : model.parameters_of(modules.first + i)) {
        if (reported_.insert(parameter).second) sync_->gradient_ready(parameter);
      }
      const BackwardParts& parts = backwards[index_of(i)];
      now += parts.weight + (gradients.is_weight_only ? 0 : parts.input);
      advance_to(now);
      sync_->after_weight_gradients(modules.first + i);
    }
  }

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
  std::set<int> reported_;  // One that several modules read: by the first of them at the latest.
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

std::int64_t StepEnds::end_of(const ParallelPlan& plan, const PipelineStages& stages,
                              const RankTimes& times, int rank) {
  return EndProbe(*machine_, *network_, plan, rank).run(stages, times);
}

std::int64_t StepEnds::least_step(const Candidate& candidate, const PipelineStages& stages,
                                  const PlayedPipeline& played) {
  const ParallelPlan& plan = experiment_of(candidate).plan();
  // The first rank drains last, the last one has the head; any other may be the busiest.
  const auto latest = std::ranges::max_element(played.ranks, {}, &RankTimes::end);
  const std::set<int> ranks = {0, static_cast<int>(latest - played.ranks.begin()),
                               static_cast<int>(candidate.pp) - 1};
  std::int64_t least = 0;
  for (const int rank : ranks) {
    least = std::max(least, end_of(plan, stages, played.ranks[index_of(rank)], rank));
  }
  return least;
}

}  // namespace shardsim
