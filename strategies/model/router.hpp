#pragma once

#include <functional>

#include "strategies/model/layer.hpp"
#include "strategies/model/router_options.hpp"

// The router: which experts a token goes to, and with what weight each counts. Logits, scores and
// gates are kept in the dtype of statistics. Mixtral's gates of k experts are the softmax of their
// logits alone and add up to 1. Where gates are normalised and k is 1, the gate is a constant and
// teaches the router nothing.
namespace shardsim {

struct RouterRule {
  RouterOptions options;
  std::int64_t experts_per_token = 1;  ///< k
};

struct RouterWeights {
  Tensor weight;       ///< [E, h]
  Tensor logit_bias;   ///< [E], or undefined.
  Tensor choice_bias;  ///< [E], or undefined: added to scores for the choice alone.
};

struct RouterOutput {
  Tensor scores;   ///< [n, E]: softmax over all experts, or each one's sigmoid.
  Tensor chosen;   ///< [n, k] int32, ascending in nothing: slot by slot.
  Tensor gates;    ///< [n, k]: weights of the chosen.
  Tensor z_slope;  ///< [n, E], with a z-loss: d (log of the sum of exp z)^2 / d z.
};

/// The expert of a token's slot, where routing is declared.
using DeclaredChoice = std::function<int(std::int64_t row, std::int64_t slot)>;

/// x [..., h]. `declared` empty: see choose_experts. It compares logits where a softmax needs no
/// more, and else scores, with b where there is one.
[[nodiscard]] RouterOutput router_forward(Runtime& runtime, const Tensor& x,
                                          const RouterWeights& weights, const RouterRule& rule,
                                          const DeclaredChoice& declared);

/// Gradient of the auxiliary loss with respect to the probability of each expert; by row. The
/// probabilities are the softmax, or sigmoids divided by their sum.
using BalanceSlope = std::function<double(std::int64_t row, std::int64_t expert)>;

/// Losses on the router itself.
struct RouterLosses {
  BalanceSlope balance;   ///< May be empty.
  double z_factor = 0.0;  ///< Multiplies z_slope.
};

/// From the gradient of the gates [n, k] to that of the logits [n, E].
[[nodiscard]] Tensor router_backward(Runtime& runtime, const RouterOutput& routed,
                                     const RouterOptions& options, const Tensor& gate_gradient,
                                     const RouterLosses& losses);

/// How many slots of the rows of each of `groups` equal runs of rows went to each expert:
/// [groups, E] integers.
[[nodiscard]] Tensor count_chosen(Runtime& runtime, const Tensor& chosen, std::int64_t groups,
                                  std::int64_t num_experts, DType dtype);

}  // namespace shardsim
