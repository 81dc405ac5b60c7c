#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "strategies/model/embedding.hpp"
#include "strategies/model/low_products.hpp"
#include "strategies/model/model_context.hpp"

// Gradients of weights, at once or later. Zero-bubble pipelines split a backward pass (B). The
// stage before waits for the gradient of the input (I). No stage waits for the gradients of the
// weights (W), so they fill idle time. Source: Qi et al., "Zero Bubble Pipeline Parallelism"
// (2023).
namespace shardsim {

/// One addition to one parameter's gradient, and all it needs.
struct WeightGradient {
  enum class Kind : std::uint8_t {
    linear,     ///< += dy^T x. x undefined: the tokens gathered last.
    bias,       ///< += sum of dy's rows.
    tokens,     ///< Rows named by x (tokens) += rows of dy (gathered first, if they are a shard).
    positions,  ///< Rows of the positions of dy's rows += those.
    sum,        ///< += dy, which has the gradient itself.
    gather,     ///< Nothing: gathers the token shard x for those that follow.
    grouped,    ///< Each expert's += dy^T x of its rows (`sizes`: how many each has).
    grouped_bias,  ///< Each expert's += sum of its rows of dy.
  };
  Kind kind = Kind::linear;
  int parameter = -1;
  bool is_last = true;  ///< Nothing more is added to it in this microbatch: report it.
  Tensor dy;
  Tensor x;
  VocabPart vocab = {};  ///< tokens
  TokenRows rows = {};   ///< positions
  Tensor sizes = {};     ///< grouped, grouped_bias
  LowProduct low = {};   ///< linear, grouped: of a product in low precision.
};

/// The part of its work that backward leaves to do later.
enum class LeftWork : std::uint8_t {
  all,      ///< All but the gradient of the input, also gathers.
  terms,    ///< The same. A norm's gradient is kept as the terms of all rows, and not as their sum:
            ///< for readers of the work (waiting()); the gradients are the same.
  products  ///< Those of add_weight_gradient, with operands that are gathered. Norms are not left.
};

/// Work that backward left to do, in backward's order. The tensors are held until then, and must
/// not be overwritten: a gradient handed to Model::backward is one of them.
class WeightGradientQueue {
 public:
  explicit WeightGradientQueue(LeftWork left = LeftWork::all) : left_(left) {}

  [[nodiscard]] LeftWork left() const { return left_; }
  void push(WeightGradient work) { waiting_.push_back(std::move(work)); }
  /// Adds and reports all gradients, and is empty again. With sequence parallelism all ranks of the
  /// tensor-parallel group must run theirs at the same point: inputs are gathered.
  void run(const ModelContext& context);
  [[nodiscard]] std::span<const WeightGradient> waiting() const { return waiting_; }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  LeftWork left_;
  std::vector<WeightGradient> waiting_;
};

/// Adds the gradient and reports it, or leaves that to context.later.
void add_weight_gradient(const ModelContext& context, WeightGradient work);

}  // namespace shardsim
