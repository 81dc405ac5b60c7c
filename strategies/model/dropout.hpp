#pragma once

#include <cstdint>
#include <string>

#include "strategies/model/layer.hpp"
#include "strategies/model/sequence_part.hpp"

// Dropout: elements are zeroed at random and the others scaled up, so that the mean stays. Source:
// Srivastava et al., "Dropout" (2014). Whether an element is dropped is a function of the seed, the
// site in the model, and the element's place in the endless data set. So it does not depend on how
// ranks and microbatches share the data or the tokens; it is another one in every step, whose
// samples are others; and nothing is stored: backward, and a forward that is run again, ask again.
namespace shardsim {

struct Dropout {
  double rate = 0.0;  ///< Probability to be dropped; 0: the layer does not exist.
  std::uint64_t seed = 0;
  std::int64_t first_token = 0;  ///< First one of the microbatch, in the data set.
  /// Which positions of each sample of `seq_len` the microbatch's tokens are.
  SequencePart part = {};
  std::int64_t seq_len = 1;
};

/// A place in a model: "blocks.3.attention".
struct DropoutSite {
  int block;  ///< -1: before the blocks.
  const char* branch;
};

/// In place. y's rows are the tokens from number `first_row` of the microbatch on.
void dropout_forward(Runtime& runtime, const Dropout& dropout, const DropoutSite& site,
                     std::int64_t first_row, const Tensor& y);
/// Returns dx; dy stays as it is, for a residual connection reads it, too. Without dropout: dy.
[[nodiscard]] Tensor dropout_backward(Runtime& runtime, const Dropout& dropout,
                                      const DropoutSite& site, std::int64_t first_row,
                                      const Tensor& dy);

}  // namespace shardsim
