#include <array>
#include <utility>

#include "strategies/sharding/context_forms.hpp"

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

// One message to the next rank, and the one that comes from the rank before.
class Hop {
 public:
  Hop() = default;
  Hop(Communicator& ring, Tensor goes, Tensor comes, const char* label)
      : goes_(std::move(goes)), comes_(std::move(comes)) {
    const int next = (ring.rank() + 1) % ring.size();
    const int before = (ring.rank() + ring.size() - 1) % ring.size();
    // Together: alone, sends round a ring would wait for each other.
    const std::array<P2pOp, 2> both = {
        {{P2pOp::Kind::send, goes_, next}, {P2pOp::Kind::recv, comes_, before}}};
    work_ = ring.batch(both, {.label = label});
  }
  /// The received tensor. To be called once.
  [[nodiscard]] Tensor take() {
    work_.wait();
    goes_ = {};
    return std::exchange(comes_, Tensor());
  }

 private:
  Tensor goes_;
  Tensor comes_;
  Work work_;
};

// Blocks of keys and values on their way round. Step i computes with that of the rank i before.
class Rotation {
 public:
  Rotation(Communicator& ring, const KeyBlocks& blocks, const AttentionShape& shape, const Heads& k,
           const Heads& v)
      : ring_(ring), blocks_(blocks), shape_(shape), own_k_(k), own_v_(v) {
    present_ = blocks.pack(k, v);
  }

  /// Posts the hop that brings the next step's block, if there is one.
  void post_next(int step) {
    if (step + 1 == ring_.size()) return;
    hop_ = Hop(ring_, present_, blocks_.allocate(present_.dtype()), "keys and values");
  }
  void finish_step(int step) { present_ = step + 1 == ring_.size() ? Tensor() : hop_.take(); }

  [[nodiscard]] Heads k(int step) const { return step == 0 ? own_k_ : blocks_.k_of(present_); }
  [[nodiscard]] Heads v(int step) const { return step == 0 ? own_v_ : blocks_.v_of(present_); }
  /// This rank's queries, that block's keys.
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
  const Heads& own_k_;
  const Heads& own_v_;
  Tensor present_;
  Hop hop_;
};

}  // namespace

AttentionOutput ring_attention_forward(Runtime& runtime, Communicator& ring,
                                       const AttentionShape& shape, const Heads& q, const Heads& k,
                                       const Heads& v) {
  const DType dtype = q.tensor.dtype();
  const DType sum_dtype = statistics_dtype(dtype);
  const KeyBlocks blocks(runtime, shape);
  AttentionOutput sum = allocate_attention(runtime, shape, dtype, sum_dtype);
  {
    Rotation rotation(ring, blocks, shape, k, v);
    AttentionOutput part;
    for (int step = 0; step < ring.size(); ++step) {
      rotation.post_next(step);
      const AttentionShape here = rotation.shape(step);
      if (step == 1) part = allocate_attention(runtime, shape, dtype, sum_dtype);
      attention_forward_into(runtime, here, q, rotation.k(step), rotation.v(step),
                             step == 0 ? sum : part);
      if (step > 0) merge_attention(runtime, here, part, sum);
      rotation.finish_step(step);
    }
  }
  if (sum_dtype == dtype) return sum;
  const std::int64_t width = shape.num_heads * shape.head_size;
  const Tensor y = new_activation(runtime, sum.y.shape(), dtype);
  const HeadCopy rounded{
      .from = {sum.y, width, 0}, .to = {y, width, 0}, .rows = num_rows(y), .width = width};
  copy_heads(runtime, "attention_round", {&rounded, 1});
  sum.y = y;
  return sum;
}

void ring_attention_backward(Runtime& runtime, Communicator& ring, const AttentionShape& shape,
                             const Heads& q, const Heads& k, const Heads& v,
                             const AttentionOutput& forward, const Tensor& dy, const Heads& dq,
                             const Heads& dk, const Heads& dv) {
  const DType dtype = q.tensor.dtype();
  const DType sum_dtype = statistics_dtype(dtype);
  const KeyBlocks blocks(runtime, shape);
  const std::int64_t width = shape.num_heads * shape.head_size;
  // Summed over blocks before it is rounded.
  Heads dq_sum = dq;
  if (sum_dtype != dtype) {
    dq_sum = {new_activation(runtime, forward.y.shape(), sum_dtype), width, 0};
  }
  {
    Rotation rotation(ring, blocks, shape, k, v);
    Hop gradient;  // For the next block here, from ranks that had it before.
    for (int step = 0; step < ring.size(); ++step) {
      rotation.post_next(step);
      const AttentionShape here = rotation.shape(step);
      if (step == 0) {
        attention_backward(runtime, here, q, k, v, forward, dy, dq_sum, dk, dv);
      } else {
        const Tensor part = blocks.allocate(dtype);
        attention_backward(runtime, here, q, rotation.k(step), rotation.v(step), forward, dy,
                           dq_sum, blocks.k_of(part), blocks.v_of(part), /*adds_to_dq=*/true);
        if (step > 1) add_in_place(runtime, gradient.take(), part);
        gradient = Hop(ring, part, blocks.allocate(dtype), "key and value gradients");
      }
      rotation.finish_step(step);
    }
    blocks.unpack(gradient.take(), dk, dv, /*adds=*/true);  // Home.
  }
  if (sum_dtype == dtype) return;
  const HeadCopy rounded{.from = dq_sum, .to = dq, .rows = num_rows(dq_sum.tensor), .width = width};
  copy_heads(runtime, "attention_gradient_round", {&rounded, 1});
}

}  // namespace shardsim
