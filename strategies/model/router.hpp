#pragma once

#include <functional>

#include "strategies/model/layer.hpp"

// The router: which experts a token goes to, and with what weight each counts. Logits, softmax and
// gates are kept in the dtype of statistics. The gates of k experts are the softmax of their logits
// alone and add up to 1, as in Mixtral. With k = 1 the gate is 1 and teaches the router nothing.
namespace shardsim {

struct RouterOutput {
  Tensor probabilities;  ///< [n, E]: softmax over all experts.
  Tensor chosen;         ///< [n, k] int32, ascending in nothing: slot by slot.
  Tensor gates;          ///< [n, k], each token's add up to 1.
};

/// The expert of a token's slot, where routing is declared.
using DeclaredChoice = std::function<int(std::int64_t row, std::int64_t slot)>;

/// x [..., h], weight [E, h]. `declared` empty: the k largest logits, the largest first, of equals
/// the first expert.
[[nodiscard]] RouterOutput router_forward(Runtime& runtime, const Tensor& x, const Tensor& weight,
                                          std::int64_t experts_per_token,
                                          const DeclaredChoice& declared);

/// Gradient of the auxiliary loss with respect to the probability of each expert; by row.
using BalanceSlope = std::function<double(std::int64_t row, std::int64_t expert)>;

/// From the gradient of the gates [n, k] to that of the logits [n, E]. `balance` may be empty.
[[nodiscard]] Tensor router_backward(Runtime& runtime, const RouterOutput& routed,
                                     const Tensor& gate_gradient, const BalanceSlope& balance);

/// How many slots of the rows of each of `groups` equal runs of rows went to each expert:
/// [groups, E] integers.
[[nodiscard]] Tensor count_chosen(Runtime& runtime, const Tensor& chosen, std::int64_t groups,
                                  std::int64_t num_experts, DType dtype);

}  // namespace shardsim
