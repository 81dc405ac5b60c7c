#pragma once

#include "backends/communicator.hpp"

#include "strategies/model/attention.hpp"

// Attention of a rank's queries to the keys and values of all ranks of a group, gathered first: an
// all_gather forward; again backward, which ends in a reduce_scatter of their gradients. Nothing
// hides these. Source: Llama 3 (Dubey et al. 2024), section 3.3.2.
namespace shardsim {

/// `shape`: queries and keys are this rank's share, number group.rank() of group.size().
[[nodiscard]] AttentionOutput gathered_attention_forward(Runtime& runtime, Communicator& group,
                                                         const AttentionShape& shape,
                                                         const Heads& q, const Heads& k,
                                                         const Heads& v);

/// As attention_backward.
void gathered_attention_backward(Runtime& runtime, Communicator& group, const AttentionShape& shape,
                                 const Heads& q, const Heads& k, const Heads& v,
                                 const AttentionOutput& forward, const Tensor& dy, const Heads& dq,
                                 const Heads& dk, const Heads& dv);

}  // namespace shardsim
