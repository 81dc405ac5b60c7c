#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "strategies/model/expert_counts.hpp"
#include "strategies/model/expert_reach.hpp"

// Copies of tokens that a dispatch by node sends.
namespace shardsim {

namespace {

template <class Counts, class Visitor>
void for_each_list(Counts& counts, Visitor&& visit) {
  visit(counts.sent);
  visit(counts.received);
  visit(counts.gathered);
  for (auto& hop : counts.hops) {
    visit(hop.sent);
    visit(hop.received);
  }
}

}  // namespace

std::vector<std::int64_t> numbers_of(const ExpertCounts& counts) {
  std::vector<std::int64_t> numbers;
  for_each_list(counts, [&](const std::vector<std::int64_t>& list) {
    numbers.insert(numbers.end(), list.begin(), list.end());
  });
  return numbers;
}

ExpertCounts with_numbers(ExpertCounts form, const std::vector<std::int64_t>& numbers) {
  auto next = numbers.begin();
  for_each_list(form, [&](std::vector<std::int64_t>& list) {
    const auto end = next + std::ssize(list);
    std::copy(next, end, list.begin());
    next = end;
  });
  return form;
}

const ExpertCountsPlanner::Slots& ExpertCountsPlanner::copies_of_member(
    int layer, const ExpertGroup& group, int member, std::int64_t rows, int parts) const {
  const std::int64_t number = group.first + std::int64_t{member} * group.slices + group.slice;
  const int shard = routing_ ? static_cast<int>(number % group.token_shards) : 0;
  const int share =
      routing_ ? static_cast<int>(number / group.token_shards % group.context_parts) : 0;
  Slots& copies = copies_[{routing_ ? layer : 0, share, shard, rows, parts}];
  if (!copies.empty()) return copies;
  if (!routing_) {
    const std::int64_t reached =
        std::llround(static_cast<double>(rows) * chance_to_reach(options_, parts));
    copies.assign(static_cast<std::size_t>(parts), std::max<std::int64_t>(reached, 1));
    return copies;
  }
  copies.assign(static_cast<std::size_t>(parts), 0);
  const std::int64_t of_part = options_.num_experts / parts;
  const SequencePart part{share, group.context_parts};
  std::vector<std::int64_t> last(copies.size(), -1);  // The token that came last.
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t position = position_of_row(row, shard * rows, part, seq_len_);
    for (std::int64_t slot = 0; slot < options_.experts_per_token; ++slot) {
      const auto to =
          static_cast<std::size_t>(routing_->expert_of(layer, position, slot) / of_part);
      if (std::exchange(last[to], row) != row) ++copies[to];
    }
  }
  return copies;
}

std::vector<HopCounts> ExpertCountsPlanner::hops_of(int layer, const ExpertGroup& group,
                                                    std::int64_t rows) const {
  const int ranks = group.size / group.nodes;
  const int node = group.rank / ranks;
  const int place = group.rank % ranks;
  // Copies of tokens of the members at a place, all nodes', that reach one of this node's ranks.
  const auto passed_on = [&](int from, int to) {
    const auto target = static_cast<std::size_t>(node) * static_cast<std::size_t>(ranks) +
                        static_cast<std::size_t>(to);
    std::int64_t sum = 0;
    for (int other = 0; other < group.nodes; ++other) {
      sum += copies_of_member(layer, group, other * ranks + from, rows, group.size)[target];
    }
    return sum;
  };
  std::vector<HopCounts> hops;
  if (group.nodes > 1) {
    HopCounts& hop = hops.emplace_back();
    hop.sent = copies_of_member(layer, group, group.rank, rows, group.nodes);
    for (int other = 0; other < group.nodes; ++other) {
      hop.received.push_back(copies_of_member(layer, group, other * ranks + place, rows,
                                              group.nodes)[static_cast<std::size_t>(node)]);
    }
  }
  if (ranks > 1) {
    HopCounts& hop = hops.emplace_back();
    for (int other = 0; other < ranks; ++other) {
      hop.sent.push_back(passed_on(place, other));
      hop.received.push_back(passed_on(other, place));
    }
  }
  return hops;
}

}  // namespace shardsim
