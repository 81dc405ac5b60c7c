#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "strategies/mesh_groups.hpp"
#include "strategies/model/expert_layer.hpp"
#include "strategies/model/layer_options.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "sim/run/decision_file.hpp"

namespace shardsim {

namespace {

// The placement of stages; without actions, which are many at scale.
PipelineSchedule placement_of(const ParallelOptions& options) {
  if (options.own_schedule) {
    return {.shape = options.own_schedule->shape, .placement = options.own_schedule->placement};
  }
  const int pp = options.mesh.pp;
  const auto stages = static_cast<int>(options.stage_split.layers.size());
  return {.shape = {.num_ranks = pp, .num_chunks = stages / pp},
          .placement = pp == 1 ? Placement::loop : schedule_row(options.schedule).placement};
}

}  // namespace

ExpertTokens::ExpertTokens(const Experiment& experiment)
    : scenario_(experiment.scenario()), options_(experiment.options()) {}

bool ExpertTokens::are_decided(const Experiment& experiment) {
  const ModelSpec& model = experiment.scenario().model;
  return model.num_experts > 0 && routing_row(model.moe_routing).is_learned();
}

bool ExpertTokens::exchanges() const {
  return options_.mesh.experts_apart() && scenario_.model.moe_capacity_factor <= 0.0;
}

std::int64_t ExpertTokens::slots() const {
  const ParallelismSpec& p = scenario_.parallelism;
  const std::int64_t ranks = p.cp * (p.sequence_parallel ? p.tp : 1);
  return scenario_.training.micro_batch_size * scenario_.model.seq_len / ranks *
         scenario_.model.num_experts_per_token;
}

// Blocks with experts on the stages of the rank, once per microbatch and step; with full
// recomputation, forward runs and decides twice.
std::size_t ExpertTokens::num_decisions(int rank) const {
  const ParallelismSpec& p = scenario_.parallelism;
  const int pp = options_.mesh.place_of(rank).pp;
  const PipelineSchedule schedule = placement_of(options_);
  const std::vector<LayerSpec> layers = scenario_.model.each_layer();
  std::size_t block = 0;
  std::int64_t with_experts = 0;
  for (std::size_t stage = 0; stage < p.stage_layers.size(); ++stage) {
    const bool here = schedule.rank_of(static_cast<int>(stage)) == pp;
    for (std::int64_t layer = 0; layer < p.stage_layers[stage]; ++layer, ++block) {
      if (here && layers[block].feed_forward == FeedForward::experts) ++with_experts;
    }
    const bool is_last = stage + 1 == p.stage_layers.size();
    if (here && is_last && layers.back().feed_forward == FeedForward::experts) {
      with_experts += scenario_.model.mtp_num_layers;
    }
  }
  const ModelOptions& model = options_.model;
  const bool goes_again =
      model.recompute == Recompute::full || model.recomputes(RecomputeModule::moe);
  const std::int64_t forwards = goes_again ? 2 : 1;
  return static_cast<std::size_t>(with_experts * forwards * scenario_.training.num_microbatches *
                                  scenario_.execution.steps);
}

std::size_t ExpertTokens::num_numbers() const {
  if (options_.mesh.dispatch_nodes > 0) return num_numbers_by_node();
  const std::int64_t slices = options_.mesh.etp > 1 ? options_.mesh.etp : 0;
  return static_cast<std::size_t>(scenario_.model.num_experts * (exchanges() ? 2 + slices : 1));
}

std::optional<std::string> ExpertTokens::find_fault(
    const std::vector<std::int64_t>& numbers) const {
  if (numbers.size() != num_numbers()) {
    return fmt::format("{} numbers, but a decision on \"{}\" has {}", numbers.size(), kExpertTokens,
                       num_numbers());
  }
  const std::int64_t most = slots() * scenario_.parallelism.ep;
  for (const std::int64_t number : numbers) {
    if (number >= 0 && number <= most) continue;
    return fmt::format("a number of tokens is {}, it can be 0 to {}", number, most);
  }
  const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(scenario_.model.num_experts);
  const std::int64_t sent = std::accumulate(numbers.begin(), end, std::int64_t{0});
  if (sent == slots()) return std::nullopt;
  return fmt::format("{} tokens go to experts, but {} must", sent, slots());
}

std::optional<std::string> ExpertTokens::find_mismatch(const DecisionLog& log) const {
  if (!exchanges()) return std::nullopt;
  const MeshShape& mesh = options_.mesh;
  if (mesh.dispatch_nodes > 0) return find_mismatch_by_node(log);
  std::map<std::tuple<int, int, int, int>, std::vector<int>> groups;  // Members in order.
  for (int rank = 0; rank < log.num_ranks(); ++rank) {
    const MeshPlace place = mesh.place_of(rank);
    std::vector<int>& members =
        groups[{place.pp, place.dp_replicate, mesh.shard_of(place, WeightKind::expert),
                mesh.etp_of(place)}];
    members.resize(static_cast<std::size_t>(mesh.ep));
    members[static_cast<std::size_t>(mesh.ep_of(place))] = rank;
  }
  const auto experts = static_cast<std::size_t>(scenario_.model.num_experts);
  const std::size_t each = experts / static_cast<std::size_t>(mesh.ep);
  for (const auto& [key, members] : groups) {
    for (std::size_t to = 0; to < members.size(); ++to) {
      const DecisionLog::Numbers& there = log.numbers_of(members[to], kExpertTokens);
      for (std::size_t i = 0; i < there.size() * experts; ++i) {
        const std::size_t from = i % experts / each;
        const std::int64_t got = there[i / experts][experts + i % experts];
        const std::int64_t sent =
            log.numbers_of(members[from], kExpertTokens)[i / experts][to * each + i % each];
        if (got == sent) continue;
        return fmt::format(
            "decision {} of rank {} is to get {} tokens from rank {}, which sends {}", i / experts,
            members[to], got, members[from], sent);
      }
    }
  }
  return mesh.etp > 1 ? find_slice_mismatch(log) : std::nullopt;
}

// Ranks with slices of the same experts gather what each of them gets.
std::optional<std::string> ExpertTokens::find_slice_mismatch(const DecisionLog& log) const {
  const MeshShape& mesh = options_.mesh;
  const auto experts = static_cast<std::size_t>(scenario_.model.num_experts);
  for (int rank = 0; rank < log.num_ranks(); ++rank) {
    const DecisionLog::Numbers& here = log.numbers_of(rank, kExpertTokens);
    const RankSpan slices = expert_tensor_group(mesh, mesh.place_of(rank));
    for (std::size_t i = 0; i < here.size() * experts * static_cast<std::size_t>(mesh.etp); ++i) {
      const std::size_t decision = i / experts / static_cast<std::size_t>(mesh.etp);
      const int from = slices.rank(static_cast<int>(i / experts) % mesh.etp);
      const std::size_t number = i % (experts * static_cast<std::size_t>(mesh.etp));
      const std::int64_t got = here[decision][2 * experts + number];
      const std::int64_t sent =
          log.numbers_of(from, kExpertTokens)[decision][experts + number % experts];
      if (got == sent) continue;
      return fmt::format("decision {} of rank {} is to gather {} tokens from rank {}, which has {}",
                         decision, rank, got, from, sent);
    }
  }
  return std::nullopt;
}

}  // namespace shardsim
