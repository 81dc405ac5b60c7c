#pragma once

#include <cstdint>
#include <vector>

#include "strategies/model/batch.hpp"
#include "strategies/model/layer.hpp"
#include "strategies/model/routing.hpp"

namespace shardsim {

/// The order in which experts read rows of tokens: expert by expert, and then by token. A batch may
/// stand for those of many ranks. Then an expert's rows lie group by group, with a group for all
/// ranks that share experts, and within it as they arrive there.
class ExpertOrder {
 public:
  /// `tokens`: of the batch. `by_rank`: whether it matters whose tokens they are. Tokens beyond a
  /// capacity are those of a rank.
  ExpertOrder(const MoeOptions& moe, const RoutingGroups& groups, std::int64_t tokens,
              std::int64_t seq_len, bool by_rank);

  /// Rows that each expert gets where tokens beyond a capacity are dropped: of all ranks.
  [[nodiscard]] std::int64_t capacity_of_all() const { return ranks_ * room_; }
  /// Names the pair of each row; see expert_rows.hpp. One operation. `chosen` [n, k].
  [[nodiscard]] Tensor order(Runtime& runtime, const Tensor& chosen) const;
  /// Rows that are in one tensor on the ranks that share experts: expert by expert, and of each
  /// group by group. REQUIRES: data.
  [[nodiscard]] std::vector<std::int64_t> runs(const Tensor& chosen) const;

 private:
  using Pairs = std::vector<std::int64_t>;
  // Those of each expert and rank in turn.
  [[nodiscard]] std::vector<Pairs> pairs_of(const Tensor& chosen) const;
  [[nodiscard]] std::int64_t place_of(std::int64_t row) const;

  const MoeOptions& moe_;
  const RoutingGroups& groups_;
  std::int64_t seq_len_;
  std::int64_t ranks_ = 1;  // Their tokens are the batch's.
  std::int64_t room_ = 0;   // Rows of an expert and rank, if they are filled up.
};

}  // namespace shardsim
