#include "strategies/sharding/context_forms.hpp"

// Attention of a rank's queries to the keys and values of all ranks of a group, gathered first: an
// all_gather forward; again backward, which ends in a reduce_scatter of their gradients. Nothing
// hides these. Source: Llama 3 (Dubey et al. 2024), section 3.3.2.
namespace shardsim {

namespace {

AttentionShape to_all_keys(AttentionShape shape) {
  shape.keys = {0, shape.keys.parts, shape.keys.parts};
  return shape;
}

// The blocks of all ranks, in their order.
Tensor gather(Communicator& group, const KeyBlocks& blocks, const Heads& k, const Heads& v) {
  const Tensor own = blocks.pack(k, v);
  Tensor all = blocks.allocate(k.tensor.dtype(), group.size());
  group.all_gather(all, own, {.label = "keys and values"}).wait();
  return all;
}

}  // namespace

AttentionOutput gathered_attention_forward(Runtime& runtime, Communicator& group,
                                           const AttentionShape& shape, const QkvHeads& qkv) {
  const KeyBlocks blocks(runtime, shape);
  const Tensor all = gather(group, blocks, qkv.k, qkv.v);
  return attention_forward(runtime, to_all_keys(shape),
                           {qkv.q, blocks.k_of(all), blocks.v_of(all)});
}

void gathered_attention_backward(Runtime& runtime, Communicator& group, const AttentionShape& shape,
                                 const QkvHeads& qkv, const AttentionOutput& forward,
                                 const Tensor& dy, const QkvHeads& gradients) {
  const KeyBlocks blocks(runtime, shape);
  const DType dtype = qkv.k.tensor.dtype();
  Tensor all = gather(group, blocks, qkv.k, qkv.v);
  const Tensor d_all = blocks.allocate(dtype, group.size());
  attention_backward(runtime, to_all_keys(shape), {qkv.q, blocks.k_of(all), blocks.v_of(all)},
                     forward, dy, {gradients.q, blocks.k_of(d_all), blocks.v_of(d_all)});
  all = {};
  const Tensor d_own = blocks.allocate(dtype);
  group.reduce_scatter(d_own, d_all, ReduceOp::sum, {.label = "key and value gradients"}).wait();
  blocks.unpack(d_own, gradients.k, gradients.v, /*adds=*/false);
}

}  // namespace shardsim
