#pragma once

#include <cstdint>

#include "strategies/model/routing.hpp"

namespace shardsim {

/// A mixture of experts in place of the MLP of a block: a token passes some of many MLPs.
/// Source: Shazeer et al., "Outrageously Large Neural Networks" (2017); gates as in Jiang et al.,
/// "Mixtral of Experts" (2024).
struct MoeOptions {
  std::int64_t num_experts = 0;           ///< 0: no experts, the block's MLP is dense.
  std::int64_t experts_per_token = 1;     ///< k
  std::int64_t ffn_hidden_size = 1;       ///< For one expert.
  std::int64_t num_shared_experts = 0;    ///< One dense MLP of so many experts' size, always on.
  std::int64_t first_dense_layers = 0;    ///< The first blocks keep the dense MLP.
  double capacity_factor = 0.0;           ///< 0: no token is dropped. Else see capacity().
  double auxiliary_loss_coefficient = 0;  ///< For the load-balancing loss.
  RoutingKind routing = kDefaultRouting;
  double skew = 1.0;         ///< For routings that read it.
  ExpertWeights popularity;  ///< For routings that read it.
  /// Ranks that share the experts of a layer. The model is then that of one of them.
  int expert_parallel = 1;

  [[nodiscard]] bool in_block(int block) const {
    return num_experts > 0 && block >= first_dense_layers;
  }
  [[nodiscard]] bool declares_routing() const { return !routing_row(routing).is_learned(); }
  [[nodiscard]] bool drops_tokens() const { return capacity_factor > 0.0; }
  [[nodiscard]] bool balances_load() const { return auxiliary_loss_coefficient > 0.0; }
};

/// Rows that each expert takes of a group of `tokens`: ceil(tokens k / experts x factor), with the
/// factor as the decimal number that was written. At most `tokens`, since a token goes to an expert
/// once. Rows beyond that are dropped, in the order of tokens. REQUIRES: drops_tokens(),
/// tokens > 0; tokens x experts below 2^53.
[[nodiscard]] std::int64_t capacity(const MoeOptions& options, std::int64_t tokens);

/// Throws UsageError for numbers that are no mixture of experts in `num_layers` blocks.
void validate(const MoeOptions& options, std::int64_t num_layers);

}  // namespace shardsim
