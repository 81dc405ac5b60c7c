#include "sim/search/candidate_bound.hpp"

#include <algorithm>
#include <utility>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/stage_split.hpp"
#include "strategies/pipeline/timeline.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/run/device_memory.hpp"

namespace shardsim {

namespace {

struct BackwardParts {
  std::int64_t input = 0;
  std::int64_t weight = 0;
};

// I and W as a schedule runs them; if it has B, that is all I. If it has both, they add up to at
// most B.
BackwardParts parts_of(const ModuleCost& module, BackwardCut cut) {
  if (cut == BackwardCut::whole) return {module.backward, 0};
  if (cut == BackwardCut::split) return {module.backward_input, module.backward_weight};
  const std::int64_t input = std::min(module.backward_input, module.backward);
  return {input, std::min(module.backward_weight, module.backward - input)};
}

WeightCounts operator+(const WeightCounts& a, const WeightCounts& b) {
  return {a.dense + b.dense, a.expert + b.expert};
}

WeightCounts operator*(std::int64_t times, const WeightCounts& counts) {
  return {times * counts.dense, times * counts.expert};
}

}  // namespace

/// The costs of a pipeline's stages, in model order, and their ranks.
struct BoundTable::Stages {
  struct Stage {
    StageCosts costs;         // B in one piece: all of it is I.
    std::int64_t kept = 0;    // Per microbatch,
    std::int64_t before = 0;  // and on top of that when its backward begins.
    std::int64_t waiting = 0;
    std::int64_t blocks = 0;
    WeightCounts weights;
  };
  std::vector<Stage> stages;
  std::int64_t ranks = 1;
  bool is_v = false;
  std::int64_t message = 0;
  // Elements that stage 3 has gathered while the last module of any stage runs forward, and when
  // its backward begins: then the previous module is being gathered, too.
  std::int64_t gathered_forward = 0;
  std::int64_t gathered_backward = 0;

  [[nodiscard]] std::int64_t rank_of(std::int64_t stage) const {
    const std::int64_t place = stage % ranks;
    return is_v && stage >= ranks ? ranks - 1 - place : place;
  }
  [[nodiscard]] WeightCounts weights_of(std::int64_t rank) const {
    WeightCounts sum;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      if (rank_of(static_cast<std::int64_t>(stage)) == rank) sum = sum + stages[stage].weights;
    }
    return sum;
  }
};

struct BoundTable::Played {
  std::int64_t makespan = 0;
  // The largest memory of each pipeline rank: after a forward, and when a backward begins.
  std::vector<std::int64_t> after_forward;
  std::vector<std::int64_t> in_backward;
};

BoundTable::BoundTable(const Experiment& base)
    : experiment_(base),
      base_(base.scenario()),
      cluster_(base.cluster()),
      network_(make_network_model(cluster_)) {}

BoundTable::~BoundTable() = default;

const LayerCosts& BoundTable::layers(const Candidate& candidate) {
  const LayerKey key(candidate);
  auto found = layers_.find(key);
  if (found == layers_.end()) {
    found = layers_.emplace(key, probe_layers(experiment_, *network_, key)).first;
  }
  return found->second;
}

BoundTable::Stages BoundTable::stages_of(const Candidate& candidate) {
  const LayerCosts& costs = layers(candidate);
  const ScheduleRow& schedule = schedule_row_of(candidate.schedule);
  const std::vector<std::int64_t> split = even_stage_layers(
      base_.model.num_layers, candidate.num_stages(),
      {.layers = {},
       .account_for_embedding = base_.parallelism.account_for_embedding_in_pipeline_split,
       .account_for_loss = base_.parallelism.account_for_loss_in_pipeline_split,
       .num_ranks = static_cast<int>(candidate.pp),
       .placement = schedule.placement});
  Stages result;
  result.ranks = candidate.pp;
  result.is_v = schedule.placement == Placement::v;
  result.message = costs.message;
  const std::int64_t block = costs.block_weights.dense;
  result.gathered_forward = std::min(block, costs.head_weights.dense);
  const bool prefetches = base_.parallelism.overlap_param_gather &&
                          base_.parallelism.prefetch_units > 0 && split.back() > 0 &&
                          *std::min_element(split.begin(), split.end()) > 1;
  result.gathered_backward = result.gathered_forward + (prefetches ? block : 0);
  std::int64_t first_block = 0;
  for (std::size_t i = 0; i < split.size(); ++i) {
    const std::int64_t blocks = split[i];
    Stages::Stage stage;
    stage.blocks = blocks;
    const auto add = [&](const ModuleCost& module, std::int64_t times) {
      const BackwardParts parts = parts_of(module, schedule.backward);
      stage.costs.forward += times * module.forward;
      stage.costs.backward_input += times * parts.input;
      stage.costs.backward_weight += times * parts.weight;
      stage.waiting += times * module.waiting;
      stage.kept += times * module.kept;
    };
    stage.costs = {0, 0, 0};
    add(costs.block, blocks);
    const std::int64_t dense =
        std::clamp<std::int64_t>(base_.model.first_dense_layers - first_block, 0, blocks);
    stage.weights = dense * costs.dense_block_weights + (blocks - dense) * costs.block_weights;
    stage.before = blocks > 0 ? costs.block.transient + costs.message : 0;
    if (i == 0) {
      add(costs.embedding, 1);
      stage.weights = stage.weights + costs.embedding_weights;
    }
    if (i + 1 == split.size()) {
      add(costs.head, 1);
      stage.kept += costs.message;
      stage.before = costs.head.transient;
      stage.weights = stage.weights + costs.head_weights;
      // A tied table is on the last stage, too, unless that is the first's rank.
      if (base_.model.tied_embeddings && result.rank_of(static_cast<std::int64_t>(i)) != 0) {
        stage.weights.dense += costs.tied_table;
      }
    }
    first_block += blocks;
    result.stages.push_back(stage);
  }
  return result;
}

std::int64_t BoundTable::gathered_bytes(const Candidate& candidate, std::int64_t elements) const {
  const bool gathers = candidate.zero_stage == 3 && !base_.parallelism.offload_parameters &&
                       candidate.dp_shard * candidate.cp > 1;
  return gathers ? elements * size_of(experiment_.options().model.dtype) : 0;
}

std::int64_t BoundTable::state_bytes(const Candidate& candidate,
                                     const WeightCounts& weights) const {
  const DType weight = experiment_.options().model.dtype;
  const std::int64_t owned = experiment_.owned_bytes();
  const std::int64_t gradient = size_of(experiment_.options().sync.gradient_dtype);
  const MeshShape mesh = mesh_shape_of(candidate, RankOrder::tp_dp_pp);
  const ParallelismSpec& p = base_.parallelism;
  const auto bytes = [&](std::int64_t elements, WeightKind kind) {
    // The smallest part of the elements on a rank, if they are sharded from this stage on.
    const auto part = [&](int from_stage) {
      return elements / (candidate.zero_stage >= from_stage ? mesh.num_shards(kind) : 1);
    };
    return size_of(weight) * part(3) + (p.offload_gradients ? 0 : gradient * part(2)) +
           (p.offload_optimizer ? 0 : owned * part(1));
  };
  std::int64_t sum =
      bytes(weights.dense, WeightKind::dense) +
      bytes(weights.expert, mesh.experts_apart() ? WeightKind::expert : WeightKind::dense);
  if (p.offload_parameters) sum -= size_of(weight) * (weights.dense + weights.expert);
  return std::max<std::int64_t>(sum, 0);
}

// Stages 2 and 3 reduce every microbatch's gradients, and 3 gathers every unit twice for it, over
// one stream. While that is busy a rank computes slower, or it waits. A step takes T = C + lost +
// N, with C computing and N waiting. The stream's time D overlaps computing for D - N - lost or
// more, and lost is `share` times that. T is least if N is no more than the layers' own waiting.
std::int64_t BoundTable::sharding_ps(const Candidate& candidate, const Stages& stages) {
  const ParallelismSpec& p = base_.parallelism;
  const std::int64_t shards = candidate.dp_shard * candidate.cp;
  if (candidate.zero_stage < 2 || shards == 1 || p.rank_order != "tp-dp-pp" ||
      !p.sync_every_microbatch) {
    return 0;
  }
  const MeshShape mesh = mesh_shape_of(candidate, RankOrder::tp_dp_pp);
  std::vector<int> members;
  for (int dp = 0; dp < mesh.dp_shard; ++dp) {
    for (int cp = 0; cp < mesh.cp; ++cp) {
      members.push_back(mesh.rank_of({.cp = cp, .dp_shard = dp}));
    }
  }
  const GroupLayout layout(cluster_, members);
  const auto price = [&](CollectiveKind kind, std::int64_t elements, DType dtype) {
    CollectiveRequest request;
    request.kind = kind;
    request.layout = &layout;
    request.bytes = elements * size_of(dtype);
    request.largest_chunk = request.bytes / shards;
    return network_->collective(request, Time()).duration.picoseconds();
  };
  const DType gradient = experiment_.options().sync.gradient_dtype;
  const DType weight = experiment_.options().model.dtype;
  const LayerCosts& costs = layers(candidate);
  const bool gathers =
      candidate.zero_stage == 3 && p.reshard_after_forward && !p.offload_parameters;
  const auto of_unit = [&](std::int64_t elements) {
    return price(collective::kReduceScatter, elements, gradient) +
           (gathers ? 2 * price(collective::kAllGather, elements, weight) : 0);
  };
  const double share = cluster_.device.slowdown_beside_collectives;
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < stages.ranks; ++rank) {
    std::int64_t busy = 0;
    std::int64_t own = 0;
    std::int64_t waiting = 0;
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < stages.stages.size(); ++i) {
      if (stages.rank_of(static_cast<std::int64_t>(i)) != rank) continue;
      const Stages::Stage& stage = stages.stages[i];
      own += stage.costs.forward + stage.costs.backward_input + stage.costs.backward_weight;
      waiting += stage.waiting;
      blocks += stage.blocks;
      if (base_.model.tied_embeddings) continue;
      if (i == 0) busy += of_unit(costs.embedding_weights.dense);
      if (i + 1 == stages.stages.size()) busy += of_unit(costs.head_weights.dense);
    }
    const std::int64_t smaller =
        std::min(costs.block_weights.dense, costs.dense_block_weights.dense);
    busy += blocks * of_unit(smaller);
    const auto beside = static_cast<double>(std::max<std::int64_t>(busy - waiting, 0));
    const auto lost = static_cast<std::int64_t>(beside * share / (1.0 + share));
    most = std::max(most, std::max(busy, own + lost));
  }
  return candidate.num_microbatches * most;
}

const std::vector<std::int64_t>& BoundTable::outside(const Candidate& candidate) {
  const bool is_v = schedule_row_of(candidate.schedule).placement == Placement::v;
  auto& found = outside_[{candidate.tp, candidate.pp, candidate.cp, candidate.ep,
                          candidate.dp_replicate, candidate.dp_shard, is_v ? 1 : 0}];
  if (!found.empty()) return found;
  const RankOrder order = experiment_.mesh().order;
  MeshShape mesh = mesh_shape_of(candidate, order);
  mesh.v_placement = is_v;
  const ModelOptions& model = experiment_.options().model;
  // If the number of exchanging ranks is chosen, the reader derives it from cp: use the least.
  const bool is_chosen = exchanges_with_chosen(context_attention_row(model.context_attention));
  const int known = ulysses_size(model.context_attention, mesh.cp, 1);
  for (int pp = 0; pp < mesh.pp; ++pp) {
    const int rank = mesh.rank_of({.pp = pp});
    std::int64_t least = outside_bytes(cluster_, mesh, known, rank);
    for (int ulysses = 2; is_chosen && ulysses <= mesh.cp; ++ulysses) {
      if (mesh.cp % ulysses != 0) continue;
      least = std::min(least, outside_bytes(cluster_, mesh, ulysses, rank));
    }
    found.push_back(least);
  }
  return found;
}

Bound BoundTable::quick(const Candidate& candidate) {
  const Stages stages = stages_of(candidate);
  const std::vector<std::int64_t>& outside = this->outside(candidate);
  const ScheduleRow& schedule = schedule_row_of(candidate.schedule);
  const bool drains = schedule.backward == BackwardCut::whole && !stages.is_v;
  std::vector<std::int64_t> busy(static_cast<std::size_t>(candidate.pp), 0);
  std::vector<std::int64_t> fill(static_cast<std::size_t>(candidate.pp), 0);
  std::int64_t before = 0;
  for (std::size_t i = 0; i < stages.stages.size(); ++i) {
    const auto rank = static_cast<std::size_t>(stages.rank_of(static_cast<std::int64_t>(i)));
    const StageCosts& costs = stages.stages[i].costs;
    if (static_cast<std::int64_t>(i) < candidate.pp) fill[rank] = before;
    before += costs.forward + (drains ? costs.backward_input : 0);
    busy[rank] += costs.forward + costs.backward_input + costs.backward_weight;
  }
  Bound bound;
  for (std::int64_t rank = 0; rank < candidate.pp; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    bound.step_ps = std::max(bound.step_ps, fill[r] + candidate.num_microbatches * busy[r]);
    // The first chunk's microbatches before its first backward.
    const std::int64_t in_flight =
        schedule.least_in_flight(candidate.num_microbatches, candidate.pp - rank);
    const std::int64_t peak =
        state_bytes(candidate, stages.weights_of(rank)) + in_flight * stages.stages[r].kept;
    bound.device_bytes = std::max(bound.device_bytes, outside[r] + peak);
  }
  return bound;
}

// The fastest edge between pipeline ranks.
std::int64_t BoundTable::message_ps(const Candidate& candidate, std::int64_t bytes) {
  const MeshShape mesh = mesh_shape_of(candidate, experiment_.mesh().order);
  Time least;
  for (int pp = 0; pp < mesh.pp; ++pp) {
    const int next = mesh.rank_of({.pp = (pp + 1) % mesh.pp});
    const Time time = network_->transfer(mesh.rank_of({.pp = pp}), next, bytes, Time());
    least = pp == 0 ? time : min(least, time);
  }
  return least.picoseconds();
}

const BoundTable::Played& BoundTable::play(const Candidate& candidate, const Stages& stages) {
  const PipelineKey key{LayerKey(candidate), candidate.pp, candidate.vpp,
                        candidate.num_microbatches, candidate.schedule};
  const auto found = played_.find(key);
  if (found != played_.end()) return found->second;
  const PipelineShape shape{static_cast<int>(candidate.pp), static_cast<int>(candidate.vpp),
                            static_cast<int>(candidate.num_microbatches)};
  const PipelineSchedule schedule = make_schedule(candidate.schedule, shape);
  ScheduleCosts costs;
  for (const Stages::Stage& stage : stages.stages) costs.stages.push_back(stage.costs);
  costs.message = message_ps(candidate, stages.message);
  Played played;
  played.makespan = timeline(lower(schedule), costs).makespan;
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    std::int64_t held = 0;
    std::int64_t after_forward = 0;
    std::int64_t in_backward = 0;
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      const Stages::Stage& stage =
          stages.stages[static_cast<std::size_t>(schedule.stage_of(rank, action.chunk))];
      if (action.kind == ActionKind::forward) {
        held += stage.kept;
        after_forward = std::max(after_forward, held);
      }
      if (makes_input_gradient(action.kind)) {
        in_backward = std::max(in_backward, held + stage.before);
      }
      if (releases_activation(action.kind)) held -= stage.kept;
    }
    played.after_forward.push_back(after_forward);
    played.in_backward.push_back(in_backward);
  }
  return played_.emplace(key, std::move(played)).first->second;
}

Bound BoundTable::close(const Candidate& candidate) {
  const Stages stages = stages_of(candidate);
  const std::vector<std::int64_t>& outside = this->outside(candidate);
  Bound bound = quick(candidate);
  bound.step_ps = std::max(bound.step_ps, sharding_ps(candidate, stages));
  const std::int64_t forward = gathered_bytes(candidate, stages.gathered_forward);
  const std::int64_t backward = gathered_bytes(candidate, stages.gathered_backward);
  if (candidate.pp == 1) {
    const Stages::Stage& stage = stages.stages.front();
    const std::int64_t peak = std::max(stage.kept + forward, stage.kept + stage.before + backward);
    bound.device_bytes = std::max(bound.device_bytes,
                                  outside.front() + state_bytes(candidate, stage.weights) + peak);
    return bound;
  }
  const Played& played = play(candidate, stages);
  bound.step_ps = std::max(bound.step_ps, played.makespan);
  for (std::int64_t rank = 0; rank < candidate.pp; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t peak =
        std::max(played.after_forward[r] + forward, played.in_backward[r] + backward);
    bound.device_bytes = std::max(
        bound.device_bytes, outside[r] + state_bytes(candidate, stages.weights_of(rank)) + peak);
  }
  return bound;
}

}  // namespace shardsim
