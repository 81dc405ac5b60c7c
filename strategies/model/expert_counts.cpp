#include "strategies/model/expert_counts.hpp"

#include <algorithm>
#include <numeric>

namespace shardsim {

namespace {

// Prime to `length`, from its golden section on.
std::int64_t stride_of(std::int64_t length) {
  constexpr double kGolden = 0.6180339887498949;
  auto stride = static_cast<std::int64_t>(static_cast<double>(length) * kGolden);
  stride = std::max<std::int64_t>(stride, 1);
  while (std::gcd(stride, length) != 1) ++stride;
  return stride;
}

// By member and that one's experts -> by expert.
std::vector<std::int64_t> sum_over_members(const std::vector<std::int64_t>& received, int members) {
  const std::size_t each = received.size() / static_cast<std::size_t>(members);
  std::vector<std::int64_t> sums(each, 0);
  for (std::size_t i = 0; i < received.size(); ++i) sums[i % each] += received[i];
  return sums;
}

}  // namespace

std::vector<std::int64_t> apportion(std::int64_t total, const std::vector<double>& weights,
                                    std::int64_t most) {
  std::vector<std::int64_t> shares(weights.size(), 0);
  std::vector<std::size_t> open(weights.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  std::vector<double> current = weights;
  while (total > 0) {
    double sum = 0.0;
    for (const std::size_t i : open) sum += current[i];
    if (!(sum > 0.0)) {  // Nobody left wants any.
      for (const std::size_t i : open) current[i] = 1.0;
      continue;
    }
    // Everybody's share, rounded down, then one more for the largest remainders.
    std::vector<std::pair<double, std::size_t>> remainders;
    std::int64_t given = 0;
    for (const std::size_t i : open) {
      const double exact = static_cast<double>(total) * (current[i] / sum);
      const auto floor = std::min(static_cast<std::int64_t>(exact), total - given);
      const std::int64_t taken = std::min(floor, most - shares[i]);
      shares[i] += taken;
      given += taken;
      if (shares[i] < most && current[i] > 0.0) {
        remainders.emplace_back(static_cast<double>(floor) - exact, i);
      }
    }
    std::stable_sort(remainders.begin(), remainders.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    // If some were full, their excess is shared out anew; else remainders settle the rest.
    const bool full = std::any_of(open.begin(), open.end(), [&](std::size_t i) {
      return shares[i] == most && current[i] > 0.0;
    });
    if (!full || given == 0) {
      for (const auto& [remainder, i] : remainders) {
        if (given == total) break;
        ++shares[i];
        ++given;
      }
    }
    total -= given;
    std::erase_if(open, [&](std::size_t i) { return shares[i] >= most; });
  }
  return shares;
}

DeclaredRouting::DeclaredRouting(const MoeOptions& options, std::int64_t seq_len)
    : num_experts_(options.num_experts),
      seq_len_(seq_len),
      stride_(stride_of(seq_len)),
      rotates_(routing_row(options.routing).moves_on) {
  for (const std::vector<double>& weights : routing_row(options.routing).weights(options)) {
    List& list = lists_.emplace_back();
    list.shares = apportion(seq_len * options.experts_per_token, weights, seq_len);
    for (std::size_t expert = 0; expert < list.shares.size(); ++expert) {
      list.slots.insert(list.slots.end(), static_cast<std::size_t>(list.shares[expert]),
                        static_cast<int>(expert));
    }
  }
}

int DeclaredRouting::expert_of(int layer, std::int64_t position, std::int64_t slot) const {
  const std::int64_t token = position * stride_ % seq_len_;
  const int expert =
      lists_[index_of(layer)].slots[static_cast<std::size_t>(token + slot * seq_len_)];
  return (expert + rotation(layer)) % static_cast<int>(num_experts_);
}

ExpertCountsPlanner::ExpertCountsPlanner(const MoeOptions& options, std::int64_t seq_len)
    : options_(options), seq_len_(seq_len) {
  if (options.declares_routing()) routing_.emplace(options, seq_len);
}

std::shared_ptr<const ExpertCounts> ExpertCountsPlanner::counts(int layer, const ExpertGroup& group,
                                                                std::int64_t rows) const {
  const std::int64_t shares = std::int64_t{group.context_parts} * group.token_shards;
  // If nothing is declared, the experts with one slot more differ by layer and group.
  const int place = group.rank * group.slices + group.slice;
  const GroupKey key =
      routing_ ? GroupKey{layer, place, group.first % shares, rows}
               : GroupKey{static_cast<int>(moved_on(layer, group.first, rows)), place, 0, rows};
  std::shared_ptr<const ExpertCounts>& known = groups_[key];
  if (known != nullptr) return known;
  auto made = std::make_shared<ExpertCounts>();
  made->sent = slots_of_member(layer, group, group.rank, rows);
  made->received = received_by(layer, group, rows);
  if (group.nodes > 0) {
    made->received = sum_over_members(made->received, group.size);
    made->hops = hops_of(layer, group, rows);
  }
  ExpertGroup slice = group;
  for (slice.slice = 0; group.slices > 1 && slice.slice < group.slices; ++slice.slice) {
    const Slots of_slice = received_by(layer, slice, rows);
    made->gathered.insert(made->gathered.end(), of_slice.begin(), of_slice.end());
  }
  known = std::move(made);
  return known;
}

ExpertCountsPlanner::Slots ExpertCountsPlanner::received_by(int layer, const ExpertGroup& group,
                                                            std::int64_t rows) const {
  Slots received;
  const std::int64_t here = options_.num_experts / group.size;
  for (int member = 0; member < group.size; ++member) {
    const Slots slots = slots_of_member(layer, group, member, rows);
    const auto begin = slots.begin() + group.rank * here;
    received.insert(received.end(), begin, begin + here);
  }
  return received;
}

std::shared_ptr<const ExpertCounts> ExpertCountsPlanner::equal(std::int64_t rows) const {
  std::shared_ptr<const ExpertCounts>& known = equal_[rows];
  if (known == nullptr) {
    const Slots slots(static_cast<std::size_t>(options_.num_experts), rows);
    const auto slices = static_cast<std::size_t>(options_.expert_tensor_parallel);
    const Slots gathered(slices > 1 ? slots.size() * slices : 0, rows);
    known = std::make_shared<ExpertCounts>(
        ExpertCounts{.sent = slots, .received = slots, .gathered = gathered});
  }
  return known;
}

EvenShares even_shares(const MoeOptions& options, std::int64_t rows) {
  const std::int64_t slots = rows * options.experts_per_token;
  const std::int64_t left = slots % options.num_experts;
  const std::int64_t common = std::gcd(left, std::int64_t{options.num_experts});
  return {slots / options.num_experts, left / common, options.num_experts / common};
}

// An expert further from member to member and layer to layer: no expert is favoured.
std::int64_t ExpertCountsPlanner::moved_on(int layer, std::int64_t number,
                                           std::int64_t rows) const {
  return (layer + number) % even_shares(options_, rows).period;
}

ExpertCountsPlanner::Slots ExpertCountsPlanner::slots_of_member(int layer, const ExpertGroup& group,
                                                                int member,
                                                                std::int64_t rows) const {
  const std::int64_t number = group.first + std::int64_t{member} * group.slices + group.slice;
  if (!routing_) {
    const EvenShares shares = even_shares(options_, rows);
    const std::int64_t further = moved_on(layer, number, rows);
    Slots slots;
    for (std::int64_t expert = 0; expert < options_.num_experts; ++expert) {
      slots.push_back(shares.of(expert, further));
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
