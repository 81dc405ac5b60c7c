#include "strategies/model/expert_order.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

#include "strategies/model/expert_rows.hpp"

namespace shardsim {

namespace {

// The rank whose token a row is, in the order of ExpertGroup: token shards fastest.
std::int64_t rank_of(const RoutingGroups& groups, std::int64_t row, std::int64_t seq_len) {
  const std::int64_t sample = row / seq_len;
  const std::int64_t position = row % seq_len;
  const std::int64_t parts = groups.context_parts;
  std::int64_t share = 0;
  std::int64_t local = position;
  if (parts > 1) {  // The inverse of SequencePart::position_of.
    const std::int64_t run = seq_len / (2 * parts);
    const std::int64_t number = position / run;
    share = std::min(number, 2 * parts - 1 - number);
    local = position % run + (number < parts ? 0 : run);
  }
  const std::int64_t share_len = seq_len / parts;
  const std::int64_t token = sample % groups.microbatch_samples * share_len + local;
  const std::int64_t shard = groups.microbatch_samples * share_len / groups.token_shards;
  return (sample / groups.microbatch_samples * parts + share) * groups.token_shards + token / shard;
}

// The place of a rank's rows among those that arrive at the experts of its group. Rows of ranks
// with other slices come last. By node, the last hop brings those of each rank of the node. That
// one has them from the ranks with its place on other nodes.
std::int64_t arrival_of(const RoutingGroups& groups, std::int64_t rank) {
  if (groups.expert_nodes > 0) {
    const std::int64_t on_node = groups.expert_ranks / groups.expert_nodes;
    return rank % on_node * groups.expert_nodes + rank / on_node;
  }
  const std::int64_t members = groups.expert_ranks / groups.expert_slices;
  return rank % groups.expert_slices * members + rank / groups.expert_slices;
}

}  // namespace

ExpertOrder::ExpertOrder(const MoeOptions& moe, const RoutingGroups& groups, std::int64_t tokens,
                         std::int64_t seq_len, bool by_rank)
    : moe_(moe), groups_(groups), seq_len_(seq_len) {
  if (groups.microbatch_samples > 0 && by_rank) {
    ranks_ =
        tokens / (groups.microbatch_samples * seq_len) * groups.context_parts * groups.token_shards;
  }
  if (moe.drops_tokens()) room_ = capacity(moe, tokens / ranks_);
}

std::int64_t ExpertOrder::place_of(std::int64_t row) const {
  if (ranks_ == 1) return 0;
  const std::int64_t rank = rank_of(groups_, row, seq_len_);
  const std::int64_t in_group = rank % groups_.expert_ranks;
  return rank - in_group + arrival_of(groups_, in_group);
}

std::vector<ExpertOrder::Pairs> ExpertOrder::pairs_of(const Tensor& chosen) const {
  std::vector<Pairs> places(to_size(moe_.num_experts * ranks_));
  for (std::int64_t pair = 0; pair < chosen.numel(); ++pair) {
    const auto expert = static_cast<std::int64_t>(chosen.get(pair));
    Pairs& pairs = places[to_size(expert * ranks_ + place_of(pair / moe_.experts_per_token))];
    if (moe_.drops_tokens() && std::ssize(pairs) == room_) continue;
    pairs.push_back(pair);
  }
  for (Pairs& pairs : places) pairs.resize(std::max(pairs.size(), to_size(room_)), kNoPair);
  return places;
}

Tensor ExpertOrder::order(Runtime& runtime, const Tensor& chosen) const {
  const std::int64_t length =
      moe_.drops_tokens() ? moe_.num_experts * capacity_of_all() : chosen.numel();
  Tensor order = new_activation(runtime, Shape{length}, DType::int32);
  const std::int64_t bytes = chosen.num_bytes() + order.num_bytes();
  runtime.compute(memory_op("order_rows", order.dtype(), bytes), [&] {
    std::int64_t at = 0;
    for (const Pairs& pairs : pairs_of(chosen)) {
      for (const std::int64_t pair : pairs) order.set(at++, static_cast<double>(pair));
    }
  });
  return order;
}

std::vector<std::int64_t> ExpertOrder::runs(const Tensor& chosen) const {
  const std::int64_t together = groups_.expert_ranks;
  if (ranks_ % together != 0) {
    throw Error(ExitCode::internal, "E7018", "a batch has a part of the ranks that share experts");
  }
  const std::vector<Pairs> pairs = pairs_of(chosen);
  std::vector<std::int64_t> runs(pairs.size() / to_size(together), 0);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    runs[i / to_size(together)] += std::ssize(pairs[i]);
  }
  return runs;
}

}  // namespace shardsim
