#pragma once

#include "backends/communicator.hpp"

#include "strategies/model/attention.hpp"

// Attention of a rank's queries to the keys and values of all ranks of a group, which go round a
// ring in c - 1 hops while queries stay. A hop is posted before the block at hand is computed with,
// and hides behind it. Results of blocks are merged as they come.
//
// Backward, keys and values go round again. The gradient of a block's keys and values begins at the
// first rank behind their own, travels on with them, each rank adding its own part, and needs one
// hop more to come home: c - 1, too. Home, what the rank itself contributes is added.
// Sources: Liu et al., "Ring Attention with Blockwise Transformers" (2023); Li et al.,
// "LightSeq" / "DistFlashAttn" (2023).
namespace shardsim {

/// `shape`: queries and keys are this rank's shares, number ring.rank() of as many as are cut
/// equally among ring.size() ranks.
[[nodiscard]] AttentionOutput ring_attention_forward(Runtime& runtime, Communicator& ring,
                                                     const AttentionShape& shape, const Heads& q,
                                                     const Heads& k, const Heads& v);

/// As attention_backward.
void ring_attention_backward(Runtime& runtime, Communicator& ring, const AttentionShape& shape,
                             const Heads& q, const Heads& k, const Heads& v,
                             const AttentionOutput& forward, const Tensor& dy, const Heads& dq,
                             const Heads& dk, const Heads& dv);

}  // namespace shardsim
