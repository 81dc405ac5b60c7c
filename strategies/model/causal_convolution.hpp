#pragma once

#include <cmath>

#include "strategies/model/columns.hpp"
#include "strategies/model/parameter.hpp"

// A convolution over positions, of each channel by itself, with SiLU behind it:
// y_t = silu(bias + sum over j < w of weight[j] x_(t - w + 1 + j)), where x is 0 ahead of its
// sample. One kernel: a few products per element, which memory hides, so its flops count as 0.
// Sources: PyTorch's Conv1d with groups = channels, padding w - 1 and the end cut off, as
// transformers calls it (modeling_qwen3_next.py, modeling_mamba2.py); Dao-AILab/causal-conv1d.
namespace shardsim {

struct CausalConvolution {
  std::int64_t seq_len = 0;  ///< s: rows are whole samples of s positions each.
  Tensor weight;             ///< [channels, w]; the last of w is for the position itself.
  Tensor bias;               ///< [channels]; undefined: there is none.
};

/// How its weight starts: with the standard deviation of PyTorch's Conv1d, 1 / sqrt(3 w).
[[nodiscard]] inline Init convolution_init(std::int64_t width) {
  return {Init::Kind::bell, 1.0 / std::sqrt(3.0 * static_cast<double>(width))};
}

/// x: as many columns as channels -> y, in the shape of x.tensor but for its last dimension.
[[nodiscard]] Tensor causal_convolution_forward(Runtime& runtime,
                                                const CausalConvolution& convolution,
                                                const Columns& x);

/// Backward fills these in.
struct CausalConvolutionGradient {
  Columns x;      ///< Written.
  Tensor weight;  ///< Added to, as
  Tensor bias;    ///< this; undefined without a bias.
};
/// Needs x alone beside dy: what SiLU was given is computed again.
void causal_convolution_backward(Runtime& runtime, const CausalConvolution& convolution,
                                 const Columns& x, const Tensor& dy,
                                 const CausalConvolutionGradient& gradient);

}  // namespace shardsim
