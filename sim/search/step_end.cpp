#include "sim/search/step_end.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/timeline.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "scenarios/scenario_error.hpp"
#include "scenarios/stage_places.hpp"
#include "sim/search/priced_group.hpp"

namespace shardsim {

namespace {

// Experiments are large.
constexpr std::size_t kMostExperiments = 64;

// The most layers times microbatches: beyond, it takes as long as a simulation, and there is no
// bound.
constexpr std::int64_t kMostRuns = 200'000;

// A run zeroes a buffer when its first gradient comes, maybe in a pause. Here it is first seen when
// it is reduced, which is too late.
constexpr const char* kFreeOp = "zero_gradients";

bool is_priced(const std::string& /*name*/) { return true; }

// One rank of each pipeline stage: its synchronization is the plan's, and its layers take their
// least time.
class EndProbe {
 public:
  EndProbe(const Experiment& machine, NetworkModel& network, const ParallelPlan& plan,
           const PipelineStages& stages, int rank)
      : plan_(plan),
        stages_(stages),
        shape_(plan.options().mesh),
        slowdown_(machine.cluster().device.slowdown_beside_collectives),
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

  void begin_step() { sync_->begin_step(); }

  // Runs a compute action that nobody holds up from `start` on, in picoseconds. Returns when it has
  // ended. ZeRO-2 and 3 make, and may reduce, buffers for each microbatch; else only the last of
  // `num_microbatches` counts.
  std::int64_t act(const Action& action, std::int64_t start, std::int64_t num_microbatches) {
    if (stages_.takes_turns && action.overlaps_next) {
      begun_ = action;  // The block's other half takes the time of both.
      return start;
    }
    advance_to(start);
    const std::optional<Action> partner = std::exchange(begun_, std::nullopt);
    in_block_ = partner.has_value();
    do_action(action, num_microbatches);
    if (!partner) return clock_.now.picoseconds();
    // The forward computes beside all that the backward waits for, its reductions, too. It has
    // nothing to gather where weights are kept.
    const auto& stages = stages_.stages;
    advance_to(start + stages_.block_of(stages[stage_of(*partner)], stages[stage_of(action)]));
    in_block_ = false;
    return clock_.now.picoseconds();
  }

  // Behind the last action. Returns the end of the step.
  std::int64_t end_step() {
    advance_to(least_beside());
    session_->reduce_gradients();
    session_->update();
    return clock_.now.picoseconds();
  }

 private:
  void do_action(const Action& action, std::int64_t num_microbatches) {
    const bool runs_all = plan_.options().zero_stage >= 2;
    const bool gives_gradients = releases_activation(action.kind);
    const bool is_last = gives_gradients && ++num_backwards_[action.chunk] == num_microbatches;
    if (!runs_all && !is_last) {
      const PipelineStages::Stage& stage = stages_.stages[stage_of(action)];
      take(stage.costs.of(action.kind) - hidden(stage.backward_tokens));
    } else {
      if (runs_all) begin_counting();
      if (gives_gradients) sync_->begin_weight_gradients(action.chunk, is_last);
      run(action);
    }
  }

  // The part of a backward that takes no time of its own where it is in a block.
  [[nodiscard]] std::int64_t hidden(const TokenTime& tokens) const {
    return in_block_ ? tokens.waited.picoseconds() : 0;
  }

  void advance_to(std::int64_t picoseconds) {
    clock_.now = max(clock_.now, Time::from_picoseconds(picoseconds));
  }

  // From the first action on, all that the rank does is counted.
  void begin_counting() {
    if (clock_.counts) return;
    clock_.counts = true;
    begin_ = clock_.now.picoseconds();
  }

  // When the actions have ended at the earliest, since computing beside collectives takes longer by
  // a share s. The time since the first action is W of computing, N in which nothing is computed,
  // and s b for the time b of computing beside collectives. A group's collectives, under way for C
  // in all, are all over by then, and come one after the other: C <= b + N + s b. So it is at least
  // W + N + (C - N) s / (1 + s), which grows with N; and N is at least what is waited for at once.
  [[nodiscard]] std::int64_t least_beside() const {
    if (!clock_.counts) return 0;
    std::int64_t most = 0;
    for (const ProbeClock::UnderWay& under_way : clock_.under_way) {
      const std::int64_t beside = under_way.time.picoseconds() - waiting_;
      const double charge = static_cast<double>(beside) * slowdown_ / (1.0 + slowdown_);
      // A run rounds at each of them.
      most = std::max(most, static_cast<std::int64_t>(charge) - under_way.calls);
    }
    return begin_ + computing_ + waiting_ + most;
  }

  // Counts one module's forward and backward.
  void count(const ModuleCost& cost, const BackwardParts& parts) {
    computing_ += cost.forward + parts.input + parts.weight - cost.waiting;
    const Time beside = cost.forward_tokens.at_once + cost.backward_tokens.at_once;
    const std::int64_t hidden = stages_.takes_turns ? beside.picoseconds() : 0;
    waiting_ += std::max<std::int64_t>(cost.waiting_at_once - hidden, 0);
  }

  [[nodiscard]] std::size_t stage_of(const Action& action) const {
    return index_of(plan_.schedule().stage_of(mesh_.pp(), action.chunk));
  }

  // Shows the synchronization the modules of an action, each for its least time.
  void run(const Action& action) {
    const ModuleRange modules = plan_.stage(mesh_.pp()).model->modules_of_chunk(action.chunk);
    const std::vector<const ModuleCost*> costs = stages_.modules_of(stage_of(action));
    if (action.kind == ActionKind::forward) {
      for (int i = 0; i < modules.count; ++i) {
        sync_->before_forward(modules.first + i);
        take(costs[index_of(i)]->forward);
        sync_->after_forward(modules.first + i);
      }
      return;
    }
    for (int i = modules.count; i-- > 0;) {
      const ModuleCost& cost = *costs[index_of(i)];
      const BackwardParts parts = cost.parts(stages_.schedule->backward);
      if (action.kind != ActionKind::backward_weight) count(cost, parts);
      backward(action.kind, modules.first + i, cost, parts);
    }
    if (action.kind != ActionKind::backward_weight) return;
    for (int i = modules.count; i-- > 0;) sync_->after_weight_gradients(modules.first + i);
  }

  void backward(ActionKind kind, int module, const ModuleCost& cost, const BackwardParts& parts) {
    if (kind == ActionKind::backward_weight) return take(parts.weight, cost, module);
    sync_->before_backward(module);
    if (kind == ActionKind::backward_input) {
      take(parts.input);
    } else if (!in_block_ && !cost.stands_for_another &&
               cost.backward == parts.input + parts.weight) {
      take(cost, module);
    } else {
      take(parts.input + parts.weight - hidden(cost.backward_tokens), cost, module);
    }
    sync_->after_backward(module);
    if (kind == ActionKind::backward) sync_->after_weight_gradients(module);
  }

  // A backward whose gradients come at known times. If the synchronization waits, what was waited
  // for beside computing may be over by then, but the computing is still to be done.
  void take(const ModuleCost& cost, int module) {
    const Model& model = *plan_.stage(mesh_.pp()).model;
    const std::span<const int> parameters = model.parameters_of(module);
    const Time begin = clock_.now;
    const auto go_on = [&](std::int64_t at, std::int64_t since) {
      clock_.now =
          max(begin + Time::from_picoseconds(at), clock_.now + Time::from_picoseconds(since));
    };
    for (const GradientTime& gradient : cost.gradients) {
      go_on(gradient.at, gradient.since);
      sync_->gradient_ready(parameters[gradient.place]);
    }
    go_on(cost.backward, cost.after_gradients);
  }

  // The gradients of a module come at some time within it: here when it begins, in the order of
  // their buckets. Experts and other weights do not wait for each other here.
  void take(std::int64_t picoseconds, const ModuleCost& cost, int module) {
    const Time begin = clock_.now;
    Time end = begin + Time::from_picoseconds(picoseconds);
    for (const WeightKind kind : {WeightKind::dense, WeightKind::expert}) {
      clock_.now = begin;
      for (const int parameter : gradients_of(module, cost, kind)) sync_->gradient_ready(parameter);
      end = max(end, clock_.now);
    }
    clock_.now = end;
  }

  // Those parameters whose gradients the module completes: not all that it reads.
  [[nodiscard]] std::vector<int> gradients_of(int module, const ModuleCost& cost,
                                              WeightKind kind) const {
    const Model& model = *plan_.stage(mesh_.pp()).model;
    const std::span<const int> parameters = model.parameters_of(module);
    std::vector<int> found;
    const auto add = [&](int parameter) {
      const bool is_expert = shape_.experts_apart() && spec_of(model, parameter).expert;
      if (is_expert == (kind == WeightKind::expert)) found.push_back(parameter);
    };
    if (cost.stands_for_another) {
      for (const int parameter : parameters) add(parameter);
    } else {
      for (const GradientTime& gradient : cost.gradients) add(parameters[gradient.place]);
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
  const PipelineStages& stages_;
  MeshShape shape_;
  std::map<int, std::int64_t> num_backwards_;  // By chunk.
  double slowdown_;
  std::optional<Action> begun_;  // The forward of a block whose backward is next.
  bool in_block_ = false;
  std::int64_t begin_ = 0;      // The first action's,
  std::int64_t computing_ = 0;  // and from it on, the least time of computing, and of waiting
  std::int64_t waiting_ = 0;    // at once.
  ProbeClock clock_;
  ProbeRuntime runtime_;
  PricedWorld world_;
  Mesh mesh_;
  TrainingObserver observer_;
  std::unique_ptr<GradientSync> sync_;
  RankParallel parallel_;
  std::unique_ptr<TrainingSession> session_;
};

}  // namespace

StepEnds::StepEnds(const SearchBase& base, const Experiment& machine)
    : base_(base), machine_(machine), network_(make_network_model(machine.cluster())) {}

StepEnds::~StepEnds() = default;

const Experiment& StepEnds::experiment_of(const Candidate& candidate) {
  const std::array<std::int64_t, 10> key = {
      candidate.tp,
      candidate.cp,
      candidate.pp,
      candidate.ep,
      candidate.etp,
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
                                  std::int64_t message) {
  try {
    return play(candidate, stages, message);
  } catch (const UsageError&) {
  } catch (const ScenarioError&) {
  } catch (const CommunicationError&) {
  }
  return 0;
}

std::int64_t StepEnds::play(const Candidate& candidate, const PipelineStages& stages,
                            std::int64_t message) {
  const Scenario& base = base_.scenario;
  const bool runs_all = candidate.zero_stage >= 2;
  const std::int64_t num_runs = candidate.num_microbatches * base.model.num_layers;
  if (runs_all && num_runs > kMostRuns) return 0;
  const ParallelPlan& plan = experiment_of(candidate).plan();
  std::deque<EndProbe> probes;
  for (int rank = 0; rank < candidate.pp; ++rank) {
    probes.emplace_back(machine_, *network_, plan, stages, rank).begin_step();
  }
  play_actions(lowered_schedule(candidate),
               {.compute =
                    [&](int rank, const Action& action, std::int64_t start) {
                      EndProbe& probe = probes[index_of(rank)];
                      return probe.act(action, start, candidate.num_microbatches) - start;
                    },
                .message = message});
  std::int64_t least = 0;
  for (EndProbe& probe : probes) least = std::max(least, probe.end_step());
  return least;
}

}  // namespace shardsim
