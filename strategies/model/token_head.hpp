#pragma once

#include <array>
#include <cstddef>

#include "strategies/model/loss.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/pass.hpp"

// From the normed residual stream to the loss of a token of each position: output weight, cap of
// logits, cross entropy. A model may have several losses, of tokens further ahead, which all read
// one weight.
namespace shardsim {

class TokenHead {
 public:
  /// Tensors kept for backward.
  struct Kept {
    Tensor logits;
    Tensor log_sum_exp;
    Tensor beside;  ///< See FrameworkMemory.
  };
  /// The loss of some tokens.
  struct Tokens {
    Tensor targets;
    double scale = 0.0;   ///< Factor of the loss, for backward.
    bool is_last = true;  ///< Backward adds no more to the output weight's gradient after this.
  };

  TokenHead(const LogitForm& form, const FrameworkMemory& memory) : form_(form), memory_(memory) {}

  /// x [b, s, h], or this rank's tokens; `weight`: number of the output weight in `pass`. Returns
  /// the sum of the losses, [1] fp64.
  [[nodiscard]] Tensor forward(const Pass& pass, int weight, const VocabPart& part, const Tensor& x,
                               const Tensor& targets, Kept& kept) const;
  /// Adds and reports the weight's gradient, drops x and what is kept, and returns x's gradient.
  [[nodiscard]] Tensor backward(const Pass& pass, int weight, const VocabPart& part, Tensor x,
                                const Tokens& tokens, Kept& kept) const;

 private:
  LogitForm form_;
  FrameworkMemory memory_;
};

}  // namespace shardsim
