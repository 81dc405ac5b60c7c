#include "sim/search/layout_space.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/linear_spec.hpp"
#include "scenarios/stage_places.hpp"

namespace shardsim {
namespace {

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d == 0) found.push_back(d);
  }
  // Each has a partner from the root on; that of the root is itself.
  for (std::size_t i = found.size(); i-- > 0;) {
    const std::int64_t partner = number / found[i];
    if (partner != found[i]) found.push_back(partner);
  }
  return found;
}

// Chunks of a rank, more than one. Where pp divides the layers, those that cut them evenly. Else no
// number does, and for each size of the largest chunk the least number is taken.
std::vector<std::int64_t> chunk_counts(std::int64_t layers, std::int64_t pp) {
  const auto largest = [&](std::int64_t vpp) { return (layers + pp * vpp - 1) / (pp * vpp); };
  std::vector<std::int64_t> counts;
  for (std::int64_t vpp = 2; pp * vpp <= layers; ++vpp) {
    const bool is_taken =
        layers % pp == 0 ? layers % (pp * vpp) == 0 : largest(vpp) < largest(vpp - 1);
    if (is_taken) counts.push_back(vpp);
  }
  return counts;
}

class Enumeration {
 public:
  Enumeration(const Experiment& base, const FixedAxes& fixed)
      : base_(base.scenario()), fixed_(fixed) {}

  std::vector<LayoutBlock> all() {
    const std::int64_t ranks = base_.system.ranks;
    for (const std::int64_t tp : divisors_of(ranks)) {
      if (!allows("tp", tp) || !splits_tensors(tp)) continue;
      for (const std::int64_t cp : divisors_of(ranks / tp)) {
        if (!allows("cp", cp) || !cuts_sequence(cp, tp)) continue;
        for (const std::int64_t pp : divisors_of(ranks / tp / cp)) {
          if (!allows("pp", pp) || pp > base_.model.num_layers) continue;
          add_block({.tp = tp, .pp = pp, .cp = cp}, ranks / tp / cp / pp);
        }
      }
    }
    return std::move(blocks_);
  }

 private:
  template <class Value>
  [[nodiscard]] bool allows(const char* axis, const Value& value) const {
    const auto entry = fixed_.find(axis);
    if (entry == fixed_.end()) return true;
    return std::ranges::find(entry->second, fmt::format("{}", value)) != entry->second.end();
  }

  // Whether tp divides every tensor that tensor parallelism splits.
  [[nodiscard]] bool splits_tensors(std::int64_t tp) const {
    const ModelSpec& m = base_.model;
    return divides_heads(tp) && (m.layers_with_dense() == 0 || m.ffn_hidden_size % tp == 0) &&
           (m.num_experts == 0 || m.moe_shared_ffn_hidden_size % tp == 0) &&
           divides_mixers(m, tp, 1);
  }

  // Whether it divides the heads of all layers, or is a multiple of those of keys.
  [[nodiscard]] bool divides_heads(std::int64_t tp) const {
    return base_.model.divides_groups(tp) &&
           std::ranges::all_of(base_.model.kinds_of_heads(), [&](const HeadOptions& heads) {
             return heads.num_attention_heads % tp == 0;
           });
  }

  [[nodiscard]] bool cuts_sequence(std::int64_t cp, std::int64_t tp) const {
    if (cp == 1) return true;
    if (base_.model.seq_len % (2 * cp) != 0) return false;
    // A number of ranks that is chosen fits.
    const std::int64_t exchanging =
        context_attention_row(base_.parallelism.cp_attention).exchanging_ranks(cp, 1);
    return base_.model.groups_of_rank(tp) % exchanging == 0 && divides_mixers(base_.model, tp, cp);
  }

  void add_block(const Candidate& degrees, std::int64_t dp) {
    if (base_.training.global_batch_size % dp != 0) return;
    LayoutBlock block{
        .tp = degrees.tp, .cp = degrees.cp, .pp = degrees.pp, .data = {}, .batches = {}};
    add_data_parallel(degrees, dp, block);
    if (block.data.empty()) return;
    add_batches(degrees, base_.training.global_batch_size / dp, block);
    if (block.num_per_data > 0) blocks_.push_back(std::move(block));
  }

  void add_data_parallel(const Candidate& degrees, std::int64_t dp, LayoutBlock& block) const {
    for (const std::int64_t ep : divisors_of(std::max<std::int64_t>(base_.model.num_experts, 1))) {
      if (!allows("ep", ep) || !may_dispatch(ep)) continue;
      for (const std::int64_t etp : numbers_of_slices()) {
        for (const std::int64_t replicas : divisors_of(dp)) {
          const std::int64_t shards = dp / replicas;
          const std::int64_t around = shards * degrees.cp * degrees.tp;
          if (!allows("dp_replicate", replicas) || around % (ep * etp) != 0) continue;
          add_stages_of_zero({.ep = ep, .etp = etp, .dp_replicate = replicas, .dp_shard = shards},
                             degrees.cp, around / (ep * etp), block);
        }
      }
    }
  }

  // Whether the reader accepts the way that tokens reach so many ranks.
  [[nodiscard]] bool may_dispatch(std::int64_t ep) const {
    ParallelismSpec shared = base_.parallelism;
    shared.ep = ep;
    return ep == 1 || shared.expert_dispatch == ExpertDispatch::per_expert ||
           dispatch_nodes_of(shared, base_.system.gpus_per_node) > 0;
  }

  // The degrees of slices that the reader accepts.
  [[nodiscard]] std::vector<std::int64_t> numbers_of_slices() const {
    if (fixed_.count("etp") == 0) return {1};
    const ModelSpec& m = base_.model;
    const bool may_cut = m.num_experts > 0 && !m.moe_expert_bias && !base_.training.uses_muon() &&
                         base_.parallelism.expert_dispatch == ExpertDispatch::per_expert;
    std::vector<std::int64_t> found = divisors_of(may_cut ? m.moe_ffn_hidden_size : 1);
    std::erase_if(found, [&](std::int64_t etp) { return !allows("etp", etp); });
    return found;
  }

  // `expert_shards`: ranks that may share an expert's weights.
  void add_stages_of_zero(DataChoice choice, std::int64_t cp, std::int64_t expert_shards,
                          LayoutBlock& block) const {
    const bool shards =
        choice.dp_shard * cp > 1 ||
        (base_.model.num_experts > 0 && choice.ep * choice.etp > 1 && expert_shards > 1);
    // With separate experts, replicas at stage 0 and shards are other groups, but the same copies.
    for (int stage = 0; stage <= 3; ++stage) {
      if (!allows("zero_stage", stage)) continue;
      if (stage > 1 && base_.training.uses_muon()) continue;  // It is refused.
      if (stage == 0 ? choice.dp_replicate > 1 : !shards) continue;
      choice.zero_stage = stage;
      block.data.push_back(choice);
    }
  }

  // `samples`: those that ranks with the same data get in a step.
  void add_batches(Candidate candidate, std::int64_t samples, LayoutBlock& block) const {
    for (const std::int64_t size : divisors_of(samples)) {
      if (!allows("micro_batch_size", size)) continue;
      candidate.micro_batch_size = size;
      candidate.num_microbatches = samples / size;
      const std::vector<ScheduleChoice> schedules = schedules_of(candidate);
      if (schedules.empty()) continue;
      for (const bool sequence_parallel : {false, true}) {
        candidate.sequence_parallel = sequence_parallel;
        if (!may_share_tokens(candidate)) continue;
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          if (!allows("recompute", to_string(recompute))) continue;
          block.batches.push_back({.micro_batch_size = size,
                                   .num_microbatches = candidate.num_microbatches,
                                   .sequence_parallel = sequence_parallel,
                                   .recompute = recompute,
                                   .schedules = schedules,
                                   .first = block.num_per_data});
          block.num_per_data += schedules.size();
        }
      }
    }
  }

  [[nodiscard]] bool may_share_tokens(const Candidate& candidate) const {
    if (candidate.tp == 1) return !candidate.sequence_parallel;
    const bool is_fixed = fixed_.count("sequence_parallel") > 0;
    if (is_fixed && !allows("sequence_parallel", candidate.sequence_parallel)) return false;
    if (!candidate.sequence_parallel) return is_fixed && base_.model.num_experts == 0;
    return candidate.micro_batch_size * (base_.model.seq_len / candidate.cp) % candidate.tp == 0;
  }

  [[nodiscard]] std::vector<ScheduleChoice> schedules_of(const Candidate& candidate) const {
    std::vector<ScheduleChoice> found;
    const bool is_alone = candidate.pp == 1;
    if (is_alone && allows("vpp", 1) && allows("schedule", "none")) found.push_back({});
    for (const std::string_view schedule : schedule_names()) {
      if (!allows("schedule", schedule)) continue;
      const ScheduleRow& row = schedule_row(schedule);
      if (row.is_for_experts ? base_.model.num_experts == 0 : is_alone) continue;
      if (row.takes_chunks()) {
        for (const std::int64_t vpp : chunk_counts(base_.model.num_layers, candidate.pp)) {
          if (runs(candidate, row, vpp)) found.push_back({schedule, vpp});
        }
      } else if (runs(candidate, row, row.min_chunks)) {
        found.push_back({schedule, row.min_chunks});
      }
    }
    return found;
  }

  [[nodiscard]] bool runs(const Candidate& candidate, const ScheduleRow& row,
                          std::int64_t vpp) const {
    const std::int64_t stages = candidate.pp * vpp;
    if (!allows("vpp", vpp) || stages > base_.model.num_layers) return false;
    if (candidate.pp == 1 && vpp > 1) return false;
    if (stages > kMaxForwards / candidate.num_microbatches) return false;
    if (row.whole_rounds && candidate.num_microbatches % candidate.pp != 0) return false;
    const PipelineShape shape{static_cast<int>(candidate.pp), static_cast<int>(vpp), 1};
    return candidate.num_microbatches >= row.least_microbatches(shape);
  }

  const Scenario& base_;
  const FixedAxes& fixed_;
  std::vector<LayoutBlock> blocks_;
};

}  // namespace

Candidate with_data(Candidate candidate, const DataChoice& data) {
  candidate.ep = data.ep;
  candidate.etp = data.etp;
  candidate.dp_replicate = data.dp_replicate;
  candidate.dp_shard = data.dp_shard;
  candidate.zero_stage = data.zero_stage;
  return candidate;
}

std::vector<DataChoice> smallest_choices(std::span<const DataChoice> data) {
  std::vector<DataChoice> found;
  for (const DataChoice& choice : data) {
    if (found.empty() || !found.back().cuts_experts_as(choice)) found.push_back(choice);
    DataChoice& least = found.back();
    if (choice.dp_shard > least.dp_shard) {
      least.dp_shard = choice.dp_shard;
      least.dp_replicate = choice.dp_replicate;
    }
    least.zero_stage = std::max(least.zero_stage, choice.zero_stage);
  }
  return found;
}

LayoutSpace::LayoutSpace(const Experiment& experiment, const FixedAxes& fixed)
    : blocks_(Enumeration(experiment, fixed).all()) {
  for (LayoutBlock& block : blocks_) {
    block.first = num_candidates_;
    num_candidates_ += block.num_candidates();
  }
  if (num_candidates_ > 0) return;
  const Scenario& base = experiment.scenario();
  throw UsageError(
      "E1324",
      fmt::format("there is no legal layout of {} on {} GPUs with a global batch of {}",
                  base.model.preset.empty() ? base.name : base.model.preset, base.system.ranks,
                  base.training.global_batch_size),
      fixed.empty() ? "use a --global-batch-size that more of the GPUs divide"
                    : "relax one of --fix, or change --global-batch-size");
}

Candidate LayoutSpace::candidate(const LayoutPlace& place) const {
  const LayoutBlock& block = blocks_[place.block];
  const BatchChoice& batch = block.batches[place.batch];
  const ScheduleChoice& schedule = batch.schedules[place.schedule];
  const Candidate shared = {.tp = block.tp,
                            .pp = block.pp,
                            .cp = block.cp,
                            .vpp = schedule.vpp,
                            .micro_batch_size = batch.micro_batch_size,
                            .num_microbatches = batch.num_microbatches,
                            .sequence_parallel = batch.sequence_parallel,
                            .schedule = schedule.schedule,
                            .recompute = batch.recompute};
  return with_data(shared, block.data[place.data]);
}

std::size_t LayoutSpace::index(const LayoutPlace& place) const {
  const LayoutBlock& block = blocks_[place.block];
  return block.first + place.data * block.num_per_data + block.batches[place.batch].first +
         place.schedule;
}

std::vector<Candidate> enumerate_candidates(const Experiment& experiment, const FixedAxes& fixed) {
  const LayoutSpace space(experiment, fixed);
  std::vector<Candidate> found;
  found.reserve(space.num_candidates());
  LayoutPlace at;
  for (at.block = 0; at.block < space.blocks().size(); ++at.block) {
    const LayoutBlock& block = space.blocks()[at.block];
    for (at.data = 0; at.data < block.data.size(); ++at.data) {
      for (at.batch = 0; at.batch < block.batches.size(); ++at.batch) {
        const std::size_t schedules = block.batches[at.batch].schedules.size();
        for (at.schedule = 0; at.schedule < schedules; ++at.schedule) {
          found.push_back(space.candidate(at));
        }
      }
    }
  }
  return found;
}

}  // namespace shardsim
