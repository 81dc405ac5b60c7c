#include "strategies/model/expert_counts.hpp"

#include <algorithm>

namespace shardsim {

ExpertCountsPlanner::ExpertCountsPlanner(const MoeOptions& options, std::int64_t seq_len)
    : options_(options), seq_len_(seq_len) {
  if (options.declares_routing()) routing_.emplace(options, seq_len);
}

std::shared_ptr<const ExpertCounts> ExpertCountsPlanner::counts(int layer, const ExpertGroup& group,
                                                                std::int64_t rows) const {
  const std::int64_t shares = std::int64_t{group.context_parts} * group.token_shards;
  // If nothing is declared, the remainder starts at different experts by layer and group.
  const GroupKey key = routing_
                           ? GroupKey{layer, group.rank, group.first % shares, rows}
                           : GroupKey{static_cast<int>(first_favoured(layer, group.first, rows)),
                                      group.rank, 0, rows};
  std::shared_ptr<const ExpertCounts>& known = groups_[key];
  if (known != nullptr) return known;
  auto made = std::make_shared<ExpertCounts>();
  made->sent = slots_of_member(layer, group, group.rank, rows);
  const std::int64_t here = options_.num_experts / group.size;
  for (int member = 0; member < group.size; ++member) {
    const Slots slots = slots_of_member(layer, group, member, rows);
    const auto begin = slots.begin() + group.rank * here;
    made->received.insert(made->received.end(), begin, begin + here);
  }
  known = std::move(made);
  return known;
}

std::shared_ptr<const ExpertCounts> ExpertCountsPlanner::equal(std::int64_t rows) const {
  std::shared_ptr<const ExpertCounts>& known = equal_[rows];
  if (known == nullptr) {
    const Slots slots(static_cast<std::size_t>(options_.num_experts), rows);
    known = std::make_shared<ExpertCounts>(ExpertCounts{slots, slots});
  }
  return known;
}

// A member continues where the one before it stopped, a layer an expert further: no expert is
// favoured.
std::int64_t ExpertCountsPlanner::first_favoured(int layer, std::int64_t number,
                                                 std::int64_t rows) const {
  const std::int64_t remainder = rows * options_.experts_per_token % options_.num_experts;
  if (remainder == 0) return 0;
  return (layer + number % options_.num_experts * remainder) % options_.num_experts;
}

ExpertCountsPlanner::Slots ExpertCountsPlanner::slots_of_member(int layer, const ExpertGroup& group,
                                                                int member,
                                                                std::int64_t rows) const {
  const std::int64_t number = group.first + member;
  if (!routing_) {
    const std::int64_t slots_in_all = rows * options_.experts_per_token;
    Slots slots(static_cast<std::size_t>(options_.num_experts),
                slots_in_all / options_.num_experts);
    const std::int64_t first = first_favoured(layer, number, rows);
    for (std::int64_t i = 0; i < slots_in_all % options_.num_experts; ++i) {
      ++slots[static_cast<std::size_t>((first + i) % options_.num_experts)];
    }
    return slots;
  }
  const int shard = static_cast<int>(number % group.token_shards);
  const int share = static_cast<int>(number / group.token_shards % group.context_parts);
  Slots slots = slots_of(layer, {share, group.context_parts}, shard, rows);
  std::rotate(slots.rbegin(), slots.rbegin() + routing_->rotation(layer), slots.rend());
  return slots;
}

const ExpertCountsPlanner::Slots& ExpertCountsPlanner::slots_of(int layer, SequencePart part,
                                                                int token_shard,
                                                                std::int64_t rows) const {
  Slots& slots = shares_[{routing_->index_of(layer), part.index, token_shard, rows}];
  if (!slots.empty()) return slots;
  slots.resize(static_cast<std::size_t>(options_.num_experts), 0);
  const int moved_on = routing_->rotation(layer);
  const auto experts = static_cast<int>(options_.num_experts);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t position = position_of_row(row, token_shard * rows, part, seq_len_);
    for (std::int64_t slot = 0; slot < options_.experts_per_token; ++slot) {
      const int expert = routing_->expert_of(layer, position, slot) - moved_on;
      ++slots[static_cast<std::size_t>(expert < 0 ? expert + experts : expert)];
    }
  }
  return slots;
}

std::int64_t position_of_row(std::int64_t row, std::int64_t first_token, SequencePart part,
                             std::int64_t seq_len) {
  return part.position_of((first_token + row) % part.length(seq_len), seq_len);
}

}  // namespace shardsim
