#pragma once

#include <algorithm>

#include "strategies/model/columns.hpp"
#include "strategies/model/sequence_chunks.hpp"

// Selective scan, the recurrence of Mamba-2. Per head, with a state S [p, N] that is 0 ahead of
// each sample:
//   S <- e^(A dt) S + dt x B^T, y = S C + D_skip x,
//   dt = softplus(dt' + dt_bias), A = -e^A_log.
// Heads that lie side by side share B and C of their group. It is computed in chunks, exactly.
// Sources: Dao and Gu, "Transformers are SSMs" (2024); transformers, modeling_mamba2.py,
// Mamba2Mixer.torch_forward, without a limit for dt; state-spaces/mamba, ssd_combined.py.
namespace shardsim {

struct StateSpaceShape {
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;     ///< s, of whole samples.
  std::int64_t num_heads = 0;   ///< n_m
  std::int64_t head_size = 0;   ///< p
  std::int64_t num_groups = 0;  ///< G, divides n_m.
  std::int64_t state_size = 0;  ///< N
  std::int64_t chunk = 128;     ///< C; s need not be a multiple.

  [[nodiscard]] std::int64_t rows() const { return batch * seq_len; }
  [[nodiscard]] std::int64_t x_row() const { return num_heads * head_size; }
  [[nodiscard]] std::int64_t group_row() const { return num_groups * state_size; }
  [[nodiscard]] SequenceChunks chunks() const { return {seq_len, std::min(chunk, seq_len)}; }
};

/// Rows are [b, s]; columns n_m p of x, G N of B and C, n_m of dt'.
struct StateSpaceInput {
  Columns x;
  Columns b;
  Columns c;
  Columns dt;      ///< dt'
  Tensor a_log;    ///< [n_m]
  Tensor dt_bias;  ///< [n_m]
  Tensor d_skip;   ///< [n_m]
};

/// y [b, s, n_m p]. Backward needs the input alone. Counts 2 C G N + n_m (2 C p + 4 N p) flops per
/// token, four products; a last, shorter chunk counts its own length. Bytes are those of input and
/// y, and once written and read: dt, G, C B^T and the sum that each chunk adds to S in the
/// statistics' dtype, and S ahead of each chunk. These stand in memory while this runs.
[[nodiscard]] Tensor state_space_forward(Runtime& runtime, const StateSpaceShape& shape,
                                         const StateSpaceInput& input);

/// Writes the gradients of columns, and adds to those of the three vectors. Counts twice the flops
/// of forward, and 2 C G N + 2 n_m N p per token for C B^T and the states, which are computed
/// again. All that stands between kernels and its gradients are in the statistics' dtype; S and its
/// gradient are written and read twice, for they are passed on from chunk to chunk.
void state_space_backward(Runtime& runtime, const StateSpaceShape& shape,
                          const StateSpaceInput& input, const Tensor& dy,
                          const StateSpaceInput& gradient);

}  // namespace shardsim
