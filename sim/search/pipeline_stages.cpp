#include "sim/search/pipeline_stages.hpp"

#include <algorithm>
#include <utility>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/stage_split.hpp"

#include "scenarios/stage_places.hpp"

namespace shardsim {

namespace {

WeightCounts operator+(const WeightCounts& a, const WeightCounts& b) {
  return {a.dense + b.dense, a.expert + b.expert};
}

void add(PipelineStages::Stage& stage, const ModuleCost& module, std::int64_t times,
         BackwardCut cut) {
  const BackwardParts parts = module.parts(cut);
  stage.costs.forward += times * module.forward;
  stage.costs.backward_input += times * parts.input;
  stage.costs.backward_weight += times * parts.weight;
  stage.waiting += times * module.waiting;
  stage.kept += times * module.kept;
  for (std::int64_t time = 0; time < times; ++time) {
    stage.forward_tokens += module.forward_tokens;
    stage.backward_tokens += module.backward_tokens;
  }
}

void hold_memory(const PipelineSchedule& schedule, int rank, const PipelineStages& stages,
                 PlayedPipeline& played) {
  std::int64_t held = 0;
  std::int64_t after_forward = 0;
  std::int64_t in_backward = 0;
  std::int64_t of_block = 0;
  const auto keep = [&](std::int64_t kept) {
    held += kept;
    after_forward = std::max(after_forward, held);
  };
  for (const Action& action : schedule.actions[index_of(rank)]) {
    const PipelineStages::Stage& stage =
        stages.stages[index_of(schedule.stage_of(rank, action.chunk))];
    // A forward in a block may keep little before the block's backward has let go.
    const bool is_in_block = stages.takes_turns && action.overlaps_next;
    if (action.kind == ActionKind::forward && is_in_block) of_block = stage.kept;
    if (action.kind == ActionKind::forward && !is_in_block) keep(stage.kept);
    if (makes_input_gradient(action.kind)) {
      in_backward = std::max(in_backward, held + stage.before);
    }
    if (releases_activation(action.kind)) {
      held -= stage.kept;
      keep(std::exchange(of_block, 0));
    }
  }
  played.after_forward.push_back(after_forward);
  played.in_backward.push_back(in_backward);
}

// When the last action ends where blocks take their own time.
std::int64_t play_blocks(const PipelineSchedule& schedule, const PipelineStages& stages,
                         std::int64_t message) {
  std::vector<const PipelineStages::Stage*> begun(index_of(schedule.shape.num_ranks));
  std::int64_t end = 0;
  const auto compute = [&](int rank, const Action& action, std::int64_t start) -> std::int64_t {
    const auto& stage = stages.stages[index_of(schedule.stage_of(rank, action.chunk))];
    const PipelineStages::Stage*& forward = begun[index_of(rank)];
    if (action.overlaps_next) {
      forward = &stage;  // The block's other half ends it.
      return 0;
    }
    const PipelineStages::Stage* const partner = std::exchange(forward, nullptr);
    const std::int64_t taken =
        partner == nullptr ? stage.costs.of(action.kind) : stages.block_of(*partner, stage);
    end = std::max(end, start + taken);
    return taken;
  };
  play_actions(schedule, {.compute = compute, .message = message});
  return end;
}

}  // namespace

std::int64_t PipelineStages::rank_of(std::size_t stage) const {
  const auto number = static_cast<std::int64_t>(stage);
  const std::int64_t place = number % ranks;
  const bool goes_up = schedule->placement == Placement::v && number >= ranks;
  return goes_up ? ranks - 1 - place : place;
}

std::int64_t PipelineStages::computing_of(const Stage& stage) const {
  const StageCosts& costs = stage.costs;
  const std::int64_t alone = costs.forward + costs.backward_input + costs.backward_weight;
  const Time hidden = stage.forward_tokens.waited + stage.backward_tokens.waited;
  return takes_turns ? alone - hidden.picoseconds() : alone;
}

std::int64_t PipelineStages::block_of(const Stage& forward, const Stage& backward) const {
  TokenTime tokens = forward.forward_tokens;
  tokens += backward.backward_tokens;
  const std::int64_t one = forward.costs.forward;
  const std::int64_t other = backward.costs.backward_input + backward.costs.backward_weight;
  const std::int64_t computing = one + other - tokens.waited.picoseconds();
  // Neither waits less than alone, but where weight gradients fill the backward's waiting.
  const std::int64_t longer = holds_back ? one : std::max(one, other);
  return std::max({computing, tokens.longest().picoseconds(), longer});
}

WeightCounts PipelineStages::weights_of(std::int64_t rank, const LayerWeights& weights) const {
  WeightCounts sum;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (rank_of(i) != rank) continue;
    const Stage& stage = stages[i];
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const int kind = layers->kind_of[index_of(stage.first_block + block)];
      sum = sum + weights.blocks[index_of(kind)];
    }
    if (i == 0) sum = sum + weights.embedding;
    if (i + 1 < stages.size()) continue;
    sum = sum + weights.head;
    // A tied table is on the last stage, too, unless that is the first's rank.
    if (is_tied && rank != 0) sum.dense += weights.tied_table;
  }
  return sum;
}

std::vector<const ModuleCost*> PipelineStages::modules_of(std::size_t index) const {
  const Stage& stage = stages[index];
  std::vector<const ModuleCost*> modules;
  if (index == 0) modules.push_back(&layers->embedding);
  for (std::int64_t block = 0; block < stage.blocks; ++block) {
    modules.push_back(&layers->block(stage.first_block + block));
  }
  if (index + 1 == stages.size()) modules.push_back(&layers->head);
  return modules;
}

PipelineStages make_stages(const Experiment& experiment, const Candidate& candidate,
                           const LayerCosts& layers) {
  const Scenario& base = experiment.scenario();
  const ScheduleRow& schedule = schedule_row_of(candidate.schedule);
  const std::vector<std::int64_t> split = even_stage_layers(
      base.model.num_layers, candidate.num_stages(),
      {.layers = {},
       .account_for_embedding = base.parallelism.account_for_embedding_in_pipeline_split,
       .account_for_loss = base.parallelism.account_for_loss_in_pipeline_split,
       .num_ranks = static_cast<int>(candidate.pp),
       .placement = schedule.placement});
  PipelineStages result;
  result.layers = &layers;
  result.schedule = &schedule;
  result.ranks = candidate.pp;
  result.is_tied = base.model.tied_embeddings;
  result.takes_turns = runs_blocks(schedule) && candidate.ep > 1 && candidate.zero_stage < 3;
  result.holds_back = base.parallelism.delay_weight_gradients;
  result.prefetches = base.parallelism.overlap_param_gather &&
                      base.parallelism.prefetch_units > 0 && split.back() > 0 &&
                      *std::min_element(split.begin(), split.end()) > 1;
  std::int64_t first_block = 0;
  for (std::size_t i = 0; i < split.size(); ++i) {
    PipelineStages::Stage stage;
    stage.costs = {0, 0, 0};
    stage.blocks = split[i];
    stage.first_block = first_block;
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      add(stage, layers.block(first_block + block), 1, schedule.backward);
    }
    const std::int64_t last = first_block + stage.blocks - 1;
    stage.before = stage.blocks > 0 ? layers.block(last).transient + layers.message : 0;
    if (i == 0) add(stage, layers.embedding, 1, schedule.backward);
    if (i + 1 == split.size()) {
      add(stage, layers.head, 1, schedule.backward);
      stage.kept += layers.message;
      stage.before = layers.head.transient;
    }
    first_block += stage.blocks;
    result.stages.push_back(stage);
  }
  return result;
}

PipelineSchedule lowered_schedule(const Candidate& candidate) {
  const PipelineShape shape{static_cast<int>(candidate.pp), static_cast<int>(candidate.vpp),
                            static_cast<int>(candidate.num_microbatches)};
  // One rank runs forward and backward of each microbatch, one after the other.
  const bool is_alone = candidate.schedule == "none";
  return lower(make_schedule(is_alone ? default_schedule().name : candidate.schedule, shape));
}

PlayedPipeline play_pipeline(const Candidate& candidate, const PipelineStages& stages,
                             std::int64_t message) {
  const PipelineSchedule schedule = lowered_schedule(candidate);
  ScheduleCosts costs;
  for (const PipelineStages::Stage& stage : stages.stages) costs.stages.push_back(stage.costs);
  costs.message = message;
  PlayedPipeline played;
  played.message = message;
  played.makespan = stages.takes_turns ? play_blocks(schedule, stages, message)
                                       : timeline(schedule, costs).makespan;
  for (int rank = 0; rank < schedule.shape.num_ranks; ++rank) {
    hold_memory(schedule, rank, stages, played);
  }
  return played;
}

}  // namespace shardsim
