#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/model/router_options.hpp"

// A mixture of experts: the rule that chooses a token's experts, and the options. A new kind of
// rule is an enumerator here, and in routing.cpp a row and the function that it names. All other
// code asks the row.
namespace shardsim {

struct MoeOptions;
enum class ScalingRecipe : std::uint8_t;  // strategies/model/low_precision.hpp

enum class RoutingKind : std::uint8_t {
  learned,  ///< The router: those with the largest probabilities.
  // Declared: a function of layer and position alone. The router still weighs the experts.
  uniform,  ///< All experts get the same number of tokens of every sequence.
  skewed,   ///< Expert i gets a share in proportion to 1 / (i + 1)^skew (Zipf).
  listed,   ///< Shares are listed.
};

inline constexpr RoutingKind kDefaultRouting = RoutingKind::learned;

/// Weights of the experts: one list for all layers, or one for each layer that has experts.
using ExpertWeights = std::vector<std::vector<double>>;

struct RoutingRow {
  RoutingKind kind;
  const char* name;          ///< In scenario files.
  std::string_view meaning;  ///< For help: goes on behind the name, and has no full stop.
  /// For assumptions: what is declared. The skew or the list that the kind reads is told behind.
  std::string_view shares;
  bool reads_skew;
  bool reads_popularity;
  bool moves_on;  ///< From layer to layer, shares move on by one expert.
  /// The shares of a sequence that experts get are in proportion to these. Null: learned.
  ExpertWeights (*weights)(const MoeOptions& options);

  [[nodiscard]] bool is_learned() const { return weights == nullptr; }
};

[[nodiscard]] const RoutingRow& routing_row(RoutingKind kind);
/// All rows, in the order of the enumerators, in which they are listed to users.
[[nodiscard]] std::span<const RoutingRow> routing_rows();
[[nodiscard]] std::span<const char* const> routing_names();

using RoutingTrait = bool (*)(const RoutingRow&);
/// "a, b or c": all kinds with a trait, each between two `quote`.
[[nodiscard]] std::string routings_that(RoutingTrait has, std::string_view before_last = " or ",
                                        std::string_view quote = "");
inline bool is_learned(const RoutingRow& row) { return row.is_learned(); }
inline bool is_declared(const RoutingRow& row) { return !row.is_learned(); }
inline bool reads_skew(const RoutingRow& row) { return row.reads_skew; }
inline bool reads_popularity(const RoutingRow& row) { return row.reads_popularity; }

/// A mixture of experts in place of the MLP of a block: a token passes some of many MLPs.
/// Source: Shazeer et al., "Outrageously Large Neural Networks" (2017).
struct MoeOptions {
  std::int64_t num_experts = 0;             ///< 0: no experts, the block's MLP is dense.
  std::int64_t experts_per_token = 1;       ///< k
  std::int64_t ffn_hidden_size = 1;         ///< For one expert.
  std::int64_t latent_size = 0;             ///< Width of what experts read and write; 0: h.
  bool has_expert_bias = false;             ///< On each expert's gate, up and down.
  std::int64_t shared_ffn_hidden_size = 0;  ///< Width of a dense MLP for all; 0: none.
  bool has_shared_gate = false;             ///< Which sigmoid(w . x) weighs, token by token.
  std::int64_t first_dense_layers = 0;      ///< Blocks at the start that keep the dense MLP.
  double capacity_factor = 0.0;             ///< 0: no token is dropped. Else see capacity().
  double auxiliary_loss_coefficient = 0;    ///< For the load-balancing loss.
  RouterOptions router;
  RoutingKind routing = kDefaultRouting;
  double skew = 1.0;         ///< For routings that read it.
  ExpertWeights popularity;  ///< For routings that read it.
  /// Tokens that go once to each node, and gradients of their outputs, are rounded so on their way;
  /// `none`: they are not.
  ScalingRecipe dispatch_recipe{};
  /// Ranks that share the experts of a layer. The model is then that of one of them.
  int expert_parallel = 1;
  /// Ranks that have a slice of f elements each of the same experts: of gate and up as rows, of
  /// down as columns. The model is that of one of them, too.
  int expert_tensor_parallel = 1;

  [[nodiscard]] bool declares_routing() const { return !routing_row(routing).is_learned(); }
  [[nodiscard]] bool has_latent() const { return latent_size > 0; }
  /// Elements of a row that an expert reads, in a model of this width.
  [[nodiscard]] std::int64_t row_size(std::int64_t hidden_size) const {
    return has_latent() ? latent_size : hidden_size;
  }
  [[nodiscard]] bool has_shared_experts() const { return shared_ffn_hidden_size > 0; }
  [[nodiscard]] bool drops_tokens() const { return capacity_factor > 0.0; }
  [[nodiscard]] bool balances_load() const { return auxiliary_loss_coefficient > 0.0; }
};

/// Rows that each expert takes of a group of `tokens`: ceil(tokens k / experts x factor), with the
/// factor as the decimal number that was written. At most `tokens`, since a token goes to an expert
/// once. Rows beyond that are dropped, in the order of tokens. REQUIRES: drops_tokens(),
/// tokens > 0; tokens x experts below 2^53.
[[nodiscard]] std::int64_t capacity(const MoeOptions& options, std::int64_t tokens);

/// Throws UsageError for numbers that are no mixture of experts in so many blocks.
void validate(const MoeOptions& options, std::int64_t layers_with_experts);

}  // namespace shardsim
