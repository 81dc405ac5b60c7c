#pragma once

#include <string>

#include "strategies/model/head_norm.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"

// Norms of the queries and keys of a block, as llama has them: see QueryKeyNorm. Their parameters
// are two of the block's, one behind the other.
namespace shardsim {

/// Queries and keys of this rank's heads, [b, s, a d] and [b, s, g d], or their gradients.
struct QueriesAndKeys {
  Tensor q;
  Tensor k;
};

/// Tensors that backward needs beside the norms' output.
struct QueryKeyKept {
  Tensor q;  ///< Before the norm; undefined if the output serves instead.
  Tensor k;
  Tensor q_statistics;  ///< Those of both, if they lie in one tensor.
  Tensor k_statistics;
};

class QueryKeyNorms {
 public:
  /// The norms of this rank's heads.
  explicit QueryKeyNorms(const ModelOptions& options);

  /// Before rotary positions, or behind them. Neither: there are no norms.
  [[nodiscard]] bool come_first() const { return has_weights(); }
  [[nodiscard]] bool come_last() const { return kind_ == QueryKeyNorm::weightless; }
  [[nodiscard]] bool has_weights() const {
    return kind_ == QueryKeyNorm::per_head || kind_ == QueryKeyNorm::whole;
  }
  /// REQUIRES: has_weights(). Names start with `name`.
  void add_parameters(ParameterTable& table, const std::string& name) const;

  /// q and k become their norms; returns what is kept. `first`: the block's number of the first
  /// parameter, if there are any.
  [[nodiscard]] QueryKeyKept forward(const Pass& pass, int first, QueriesAndKeys& x) const;
  /// The gradients of the norms become those of what they read. `y`: the norms' output, for norms
  /// that come last. Adds and reports gradients of weights.
  void backward(const Pass& pass, int first, QueryKeyKept& kept, const QueriesAndKeys& y,
                QueriesAndKeys& gradients) const;

 private:
  [[nodiscard]] bool is_split() const {
    return kind_ == QueryKeyNorm::whole && tensor_parallel_ > 1;
  }
  [[nodiscard]] SplitRows rows_of_norm(const Tensor& x, const Tensor& weight,
                                       std::int64_t whole) const;
  void split_backward(const Pass& pass, int first, const QueryKeyKept& kept,
                      QueriesAndKeys& gradients) const;

  QueryKeyNorm kind_;
  int tensor_parallel_;
  std::int64_t head_size_;
  std::int64_t q_width_;  // All heads'.
  std::int64_t k_width_;
  std::int64_t groups_;
  std::int64_t k_summed_;  // Elements of keys that all ranks have together, copies counted.
  double epsilon_;
  NormForm form_;
};

}  // namespace shardsim
