#include "sim/search/candidate_bound.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/hardware/software.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/run/device_memory.hpp"

namespace shardsim {

namespace {

// Tables that grow with the candidates that were asked about are emptied at these sizes.
constexpr std::size_t kMostKept = 1U << 16U;
constexpr std::size_t kMostPlayed = 512;  // Each has the actions of some ranks.

// The most forwards of a schedule that is played: more take seconds, in which nothing asks whether
// the search is over. To fill and drain a pipeline takes little of so many.
constexpr std::int64_t kMostPlayedForwards = std::int64_t{1} << 20U;

}  // namespace

bool BoundTable::plays(const Candidate& candidate) {
  return candidate.pp * candidate.vpp <= kMostPlayedForwards / candidate.num_microbatches;
}

BoundTable::BoundTable(const Experiment& base)
    : experiment_(base),
      base_(base.scenario()),
      cluster_(base.cluster()),
      network_(make_network_model(cluster_)) {}

const LayerCosts& BoundTable::layers(const Candidate& candidate) {
  const LayerKey key(candidate);
  auto found = layers_.find(key);
  if (found == layers_.end()) {
    found = layers_.emplace(key, probe_layers(experiment_, *network_, key)).first;
  }
  return found->second;
}

const LayerWeights& BoundTable::weights(const Candidate& candidate) {
  const std::array<std::int64_t, 3> key = {candidate.tp, candidate.ep, candidate.etp};
  auto found = weights_.find(key);
  if (found == weights_.end()) {
    found = weights_.emplace(key, count_weights(experiment_, candidate)).first;
  }
  return found->second;
}

PipelineStages BoundTable::stages_of(const Candidate& candidate) {
  PipelineStages stages = make_stages(experiment_, candidate, layers(candidate));
  // No bound counts what may be in host memory.
  if (base_.parallelism.offloads_activations()) {
    for (PipelineStages::Stage& stage : stages.stages) stage.kept = 0;
  }
  return stages;
}

// The narrowest that weights may be kept and gathered in.
DType BoundTable::weight_dtype() const {
  const ParallelOptions& options = experiment_.options();
  return options.sync.narrow_weights ? DType::fp8_e4m3 : options.model.dtype;
}

std::int64_t BoundTable::gathered_bytes(const Candidate& candidate, std::int64_t elements) const {
  const bool gathers = candidate.zero_stage == 3 && !base_.parallelism.offload_parameters &&
                       candidate.dp_shard * candidate.cp > 1;
  return gathers ? elements * size_of(weight_dtype()) : 0;
}

std::int64_t BoundTable::state_bytes(const Candidate& candidate,
                                     const WeightCounts& weights) const {
  const DType weight = weight_dtype();
  const std::int64_t owned = std::min(experiment_.owned_bytes(), experiment_.owned_bytes(true));
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
std::int64_t BoundTable::sharding_ps(const Candidate& candidate, const PipelineStages& stages) {
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
  const DType weight = weight_dtype();
  const LayerWeights& weights = this->weights(candidate);
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
      if (stages.rank_of(i) != rank) continue;
      const PipelineStages::Stage& stage = stages.stages[i];
      own += stages.computing_of(stage);
      waiting += stage.waiting;
      blocks += stage.blocks;
      if (base_.model.tied_embeddings) continue;
      if (i == 0) busy += of_unit(weights.embedding.dense);
      if (i + 1 == stages.stages.size()) busy += of_unit(weights.head.dense);
    }
    busy += blocks * of_unit(weights.smallest_block());
    const auto beside = static_cast<double>(std::max<std::int64_t>(busy - waiting, 0));
    const auto lost = static_cast<std::int64_t>(beside * share / (1.0 + share));
    most = std::max(most, std::max(busy, own + lost));
  }
  return candidate.num_microbatches * most;
}

const std::vector<std::int64_t>& BoundTable::outside(const Candidate& candidate) {
  const bool is_v = schedule_row_of(candidate.schedule).placement == Placement::v;
  const std::array<std::int64_t, 8> key = {
      candidate.tp,  candidate.pp,           candidate.cp,       candidate.ep,
      candidate.etp, candidate.dp_replicate, candidate.dp_shard, is_v ? 1 : 0};
  const auto cached = outside_.find(key);
  if (cached != outside_.end()) return cached->second;
  if (outside_.size() == kMostKept) outside_.clear();
  std::vector<std::int64_t>& found = outside_[key];
  const RankOrder order = experiment_.mesh().order;
  MeshShape mesh = mesh_shape_of(candidate, order);
  mesh.v_placement = is_v;
  ParallelismSpec shared = base_.parallelism;
  shared.ep = candidate.ep;
  mesh.dispatch_nodes = dispatch_nodes_of(shared, cluster_.gpus_per_node);
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
    found.push_back(least + cluster_.device.workspaces.bytes());
  }
  return found;
}

std::int64_t BoundTable::quick_ps(const Candidate& candidate, const PipelineStages& stages) const {
  const ScheduleRow& schedule = schedule_row_of(candidate.schedule);
  const bool drains = schedule.backward == BackwardCut::whole && schedule.placement != Placement::v;
  std::vector<std::int64_t> busy(static_cast<std::size_t>(candidate.pp), 0);
  std::vector<std::int64_t> fill(static_cast<std::size_t>(candidate.pp), 0);
  std::vector<TokenTime> tokens(static_cast<std::size_t>(candidate.pp));
  std::int64_t before = 0;
  for (std::size_t i = 0; i < stages.stages.size(); ++i) {
    const auto rank = static_cast<std::size_t>(stages.rank_of(i));
    const StageCosts& costs = stages.stages[i].costs;
    if (static_cast<std::int64_t>(i) < candidate.pp) fill[rank] = before;
    before += costs.forward + (drains ? costs.backward_input : 0);
    busy[rank] += stages.computing_of(stages.stages[i]);
    tokens[rank] += stages.stages[i].forward_tokens;
    tokens[rank] += stages.stages[i].backward_tokens;
  }
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < busy.size(); ++rank) {
    const std::int64_t least = std::max(busy[rank], tokens[rank].longest().picoseconds());
    most = std::max(most, fill[rank] + candidate.num_microbatches * least);
  }
  return most;
}

// The first chunk's microbatches before its first backward.
std::vector<std::int64_t> BoundTable::least_kept(const Candidate& candidate,
                                                 const PipelineStages& stages) const {
  const ScheduleRow& schedule = schedule_row_of(candidate.schedule);
  std::vector<std::int64_t> kept;
  for (std::int64_t rank = 0; rank < candidate.pp; ++rank) {
    const std::int64_t in_flight =
        schedule.least_in_flight(candidate.num_microbatches, candidate.pp - rank);
    kept.push_back(in_flight * stages.stages[static_cast<std::size_t>(rank)].kept);
  }
  return kept;
}

Bound BoundTable::least(const Candidate& candidate, const std::vector<DataChoice>& data) {
  Candidate any = candidate;
  any.ep = data.size() == 1 ? data.front().ep : 0;
  any.etp = data.size() == 1 ? data.front().etp : 1;
  // Its own stage, which is the lowest, tells whether tokens may be hidden: the choices in `data`
  // need least memory, so theirs may be higher.
  const PipelineStages stages = stages_of(any);
  const std::vector<std::int64_t> kept = least_kept(candidate, stages);
  const Device& device = cluster_.device;
  const std::int64_t context = cuda_context_of(device.software).bytes + device.workspaces.bytes();
  Bound bound{quick_ps(candidate, stages), std::numeric_limits<std::int64_t>::max()};
  for (const DataChoice& choice : data) {
    const Candidate chosen = with_data(candidate, choice);
    const LayerWeights& weights = this->weights(chosen);
    std::int64_t most = 0;
    for (std::int64_t rank = 0; rank < candidate.pp; ++rank) {
      const std::int64_t peak = state_bytes(chosen, stages.weights_of(rank, weights)) +
                                kept[static_cast<std::size_t>(rank)];
      most = std::max(most, context + peak);
    }
    bound.device_bytes = std::min(bound.device_bytes, most);
  }
  return bound;
}

Bound BoundTable::quick(const Candidate& candidate) {
  const PipelineStages stages = stages_of(candidate);
  const std::vector<std::int64_t>& outside = this->outside(candidate);
  const std::vector<std::int64_t> kept = least_kept(candidate, stages);
  const LayerWeights& weights = this->weights(candidate);
  Bound bound{quick_ps(candidate, stages), 0};
  for (std::int64_t rank = 0; rank < candidate.pp; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t state = state_bytes(candidate, stages.weights_of(rank, weights));
    bound.device_bytes = std::max(bound.device_bytes, outside[r] + state + kept[r]);
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

const PlayedPipeline& BoundTable::play(const Candidate& candidate, const PipelineStages& stages) {
  const PipelineKey key{LayerKey(candidate),        candidate.pp,       candidate.vpp,
                        candidate.num_microbatches, candidate.schedule, stages.takes_turns};
  const auto found = played_.find(key);
  if (found != played_.end()) return found->second;
  if (played_.size() == kMostPlayed) played_.clear();
  const std::int64_t message =
      candidate.pp == 1 ? 0 : message_ps(candidate, stages.layers->message);
  return played_.emplace(key, play_pipeline(candidate, stages, message)).first->second;
}

Bound BoundTable::close(const Candidate& candidate) {
  const PipelineStages stages = stages_of(candidate);
  const std::vector<std::int64_t>& outside = this->outside(candidate);
  const LayerWeights& weights = this->weights(candidate);
  Bound bound = quick(candidate);
  bound.step_ps = std::max(bound.step_ps, sharding_ps(candidate, stages));
  if (!plays(candidate)) return bound;
  // Elements that stage 3 has gathered while the last module of any stage runs forward, and when
  // its backward begins: then the previous module is being gathered, too.
  const std::int64_t block = weights.smallest_block();
  const std::int64_t last = std::min(block, weights.head.dense);
  const std::int64_t forward = gathered_bytes(candidate, last);
  const std::int64_t backward = gathered_bytes(candidate, last + (stages.prefetches ? block : 0));
  const auto state = [&](std::int64_t rank) {
    return state_bytes(candidate, stages.weights_of(rank, weights));
  };
  const PlayedPipeline& played = play(candidate, stages);
  bound.step_ps = std::max(bound.step_ps, played.makespan);
  for (std::int64_t rank = 0; rank < candidate.pp; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t peak =
        std::max(played.after_forward[r] + forward, played.in_backward[r] + backward);
    bound.device_bytes = std::max(bound.device_bytes, outside[r] + state(rank) + peak);
  }
  return bound;
}

}  // namespace shardsim
