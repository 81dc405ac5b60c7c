#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "strategies/model/make_model.hpp"
#include "strategies/model/model_norm.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/transformer_block.hpp"

// Multi-token prediction: at depth j a model predicts the token j + 1 positions ahead, from what it
// made for the depth before and from the token j ahead. Source: DeepSeek-AI, "DeepSeek-V3 Technical
// Report" (arXiv 2412.19437), section 2.2; Megatron-Core, MultiTokenPredictionLayer, which reads
// normed residual streams and puts the embedding first.
namespace shardsim {

/// One depth: x' = projection [norm(e); norm(x)], a block, and a final norm of its own. Embedding
/// and output weight are the model's.
class PredictionDepth {
 public:
  /// Adds the parameters, a unit of their own; names start with "mtp.`depth`". The final norm
  /// stands before the block, since experts in the block end the unit. Depths count from 0.
  PredictionDepth(const ModelOptions& options, const ModelNorm& norm,
                  TransformerBlock::Branches branches, ParameterTable& table, int depth);

  /// Parameters of this depth: from the first until before the last.
  [[nodiscard]] int first() const { return first_; }
  [[nodiscard]] int end() const { return end_; }
  [[nodiscard]] int block() const { return block_number_; }
  [[nodiscard]] const TransformerBlock& block_of() const { return block_; }
  /// Tensors kept for backward; all depths keep as many.
  [[nodiscard]] std::size_t num_saved() const { return num_kept + block_.num_kept(); }

  /// x: the normed output of the depth before; e: the embeddings of the tokens ahead; both [b, s,
  /// h], or this rank's tokens. Returns the normed output.
  [[nodiscard]] Tensor forward(const Pass& pass, const Tensor& x, const Tensor& embedding,
                               Saved& saved) const;
  /// Gradients of x and of the embeddings, of the normed output's gradient. Adds and reports the
  /// gradients of all parameters.
  struct Gradients {
    Tensor x;
    Tensor embedding;
  };
  [[nodiscard]] Gradients backward(const Pass& pass, Tensor dy, Saved& saved) const;

 private:
  enum Kept : std::size_t {
    stream,
    stream_statistics,
    embedded,
    embedded_statistics,
    joined,
    made,  // By the block.
    made_statistics,
    num_kept
  };
  [[nodiscard]] Pass inside(Pass pass) const;

  ModelNorm norm_;
  int first_;
  int stream_norm_;
  int embedding_norm_;
  int projection_;
  int final_norm_;
  int block_number_;
  LowPrecision low_;  // That of its block's linear layers.
  int block_first_;
  TransformerBlock block_;
  int end_;
};

}  // namespace shardsim
