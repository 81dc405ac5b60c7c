#include "strategies/sharding/context_forms.hpp"
#include "strategies/sharding/ring_hop.hpp"

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

namespace {

// Blocks of keys and values on their way round. Step i computes with that of the rank i before.
class Rotation {
 public:
  Rotation(Communicator& ring, const KeyBlocks& blocks, const AttentionShape& shape,
           const QkvHeads& own)
      : ring_(ring), blocks_(blocks), shape_(shape), own_(own) {
    present_ = blocks.pack(own.k, own.v);
  }

  /// Posts the hop that brings the next step's block, if there is one.
  void post_next(int step) {
    if (step + 1 == ring_.size()) return;
    hop_ = RingHop(ring_, present_, blocks_.allocate(present_.dtype()), "keys and values");
  }
  void finish_step(int step) { present_ = step + 1 == ring_.size() ? Tensor() : hop_.take(); }

  /// This rank's queries, that block's keys and values.
  [[nodiscard]] QkvHeads qkv(int step) const {
    if (step == 0) return own_;
    return {own_.q, blocks_.k_of(present_), blocks_.v_of(present_)};
  }
  [[nodiscard]] AttentionShape shape(int step) const {
    AttentionShape here = shape_;
    const int whose = (ring_.rank() + ring_.size() - step) % ring_.size();
    here.keys.first = whose * here.keys.count;
    return here;
  }

 private:
  Communicator& ring_;
  const KeyBlocks& blocks_;
  const AttentionShape& shape_;
  const QkvHeads& own_;
  Tensor present_;
  RingHop hop_;
};

// A window or a chunk may end before it reaches a block, which is then not computed with.
bool sees_something(const AttentionShape& shape) {
  return shape.mask.size == 0 || shape.work().query_rows > 0;
}

}  // namespace

AttentionOutput ring_attention_forward(Runtime& runtime, Communicator& ring,
                                       const AttentionShape& shape, const QkvHeads& qkv) {
  const DType dtype = qkv.q.tensor.dtype();
  const DType sum_dtype = statistics_dtype(dtype);
  const KeyBlocks blocks(runtime, shape);
  AttentionOutput sum = allocate_attention(runtime, shape, dtype, sum_dtype);
  {
    Rotation rotation(ring, blocks, shape, qkv);
    AttentionOutput part;
    for (int step = 0; step < ring.size(); ++step) {
      rotation.post_next(step);
      const AttentionShape here = rotation.shape(step);
      if (sees_something(here)) {
        if (step > 0 && !part.y.defined()) {
          part = allocate_attention(runtime, shape, dtype, sum_dtype);
        }
        attention_forward_into(runtime, here, rotation.qkv(step), step == 0 ? sum : part);
        if (step > 0) merge_attention(runtime, here, part, sum);
      }
      rotation.finish_step(step);
    }
  }
  if (sum_dtype == dtype) return sum;
  const std::int64_t width = shape.y_row();
  const Tensor y = new_activation(runtime, sum.y.shape(), dtype);
  const HeadCopy rounded{
      .from = {sum.y, width, 0}, .to = {y, width, 0}, .rows = num_rows(y), .width = width};
  copy_heads(runtime, "attention_round", {&rounded, 1});
  sum.y = y;
  return sum;
}

void ring_attention_backward(Runtime& runtime, Communicator& ring, const AttentionShape& shape,
                             const QkvHeads& qkv, const AttentionOutput& forward, const Tensor& dy,
                             const QkvHeads& gradients) {
  const DType dtype = qkv.q.tensor.dtype();
  const DType sum_dtype = statistics_dtype(dtype);
  const KeyBlocks blocks(runtime, shape);
  const std::int64_t width = shape.q_row();
  // Summed over blocks before it is rounded.
  Heads dq_sum = gradients.q;
  if (sum_dtype != dtype) {
    dq_sum = {new_activation(runtime, with_last(forward.y.shape(), width), sum_dtype), width, 0};
  }
  {
    Rotation rotation(ring, blocks, shape, qkv);
    RingHop gradient;  // For the next block here, from ranks that had it before.
    for (int step = 0; step < ring.size(); ++step) {
      rotation.post_next(step);
      const AttentionShape here = rotation.shape(step);
      if (step == 0) {
        attention_backward(runtime, here, qkv, forward, dy, {dq_sum, gradients.k, gradients.v});
      } else {
        Tensor part = blocks.allocate(dtype);  // Zeros.
        const bool sees = sees_something(here);
        if (sees) {
          attention_backward(runtime, here, rotation.qkv(step), forward, dy,
                             {dq_sum, blocks.k_of(part), blocks.v_of(part)}, /*adds_to_dq=*/true);
        }
        if (step > 1) {
          const Tensor before = gradient.take();
          if (sees) {
            add_in_place(runtime, before, part);
          } else {
            part = before;
          }
        }
        gradient = RingHop(ring, part, blocks.allocate(dtype), "key and value gradients");
      }
      rotation.finish_step(step);
    }
    blocks.unpack(gradient.take(), gradients.k, gradients.v, /*adds=*/true);  // Home.
  }
  if (sum_dtype == dtype) return;
  const HeadCopy rounded{
      .from = dq_sum, .to = gradients.q, .rows = num_rows(dq_sum.tensor), .width = width};
  copy_heads(runtime, "attention_gradient_round", {&rounded, 1});
}

}  // namespace shardsim
