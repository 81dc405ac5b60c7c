#pragma once

#include <cstdint>

#include "strategies/model/layer.hpp"

// Rows of latent attention: cut into columns, and spread over heads and back. Each is one operation
// that reads and writes each element once.
namespace shardsim {

/// Sizes of a head of keys and values: d_n, d_r and d_v. In keys the d_r elements that all heads
/// share, and that turn with the position, stand behind the d_n of the head's own.
struct LatentHead {
  std::int64_t own = 0;
  std::int64_t shared = 0;
  std::int64_t value = 0;
};

struct LatentKeys {
  Tensor k;  ///< [..., a (d_n + d_r)]
  Tensor v;  ///< [..., a d_v]
};
/// kv [..., a (d_n + d_v)], head by head; shared [..., d_r]: the same in all heads.
[[nodiscard]] LatentKeys spread_keys(Runtime& runtime, const Tensor& kv, const Tensor& shared,
                                     const LatentHead& head);

struct LatentKeyGradients {
  Tensor kv;      ///< [..., a (d_n + d_v)]
  Tensor shared;  ///< [..., d_r]: the sum over these heads.
};
[[nodiscard]] LatentKeyGradients spread_keys_backward(Runtime& runtime, const LatentKeys& gradients,
                                                      const LatentHead& head);
/// left [..., n], right [..., m] -> [..., n + m].
[[nodiscard]] Tensor join_columns(Runtime& runtime, const Tensor& left, const Tensor& right);

}  // namespace shardsim
