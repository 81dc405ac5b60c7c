#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The rule that chooses a token's experts. A new kind is an enumerator here, and in routing.cpp a
// row and the function that it names. All other code asks the row.
namespace shardsim {

struct MoeOptions;  // strategies/model/moe_options.hpp

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

}  // namespace shardsim
