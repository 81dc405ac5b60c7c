#include "strategies/model/attend.hpp"

#include "strategies/model/layer.hpp"
#include "strategies/sharding/context_parallel.hpp"

namespace shardsim {

namespace {

// Whether blocks are merged in the dtype of activations; else in fp32, and rounded once.
bool merges_in(DType dtype) { return statistics_dtype(dtype) == dtype; }

// As round_shared_sum, for heads among others in a tensor.
void round_heads(Runtime& runtime, const Heads& heads, std::int64_t width, SumOver sum) {
  if (StochasticRounding::active() == nullptr) return;
  for (std::int64_t at = heads.first; at < heads.tensor.numel(); at += heads.row_stride) {
    round_shared_sum(runtime, heads.tensor.view(at, {width}), sum);
  }
}

}  // namespace

Attended attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                const Heads& v) {
  if (pass.parallel.context != nullptr) {
    return pass.parallel.context->forward(pass.runtime, shape, q, k, v);
  }
  Attended attended{.own = attention_forward(pass.runtime, shape, q, k, v),
                    .exchanged_qkv = {},
                    .exchanged_y = {}};
  if (merges_in(q.tensor.dtype())) {
    round_shared_sum(pass.runtime, attended.own.y, SumOver::key_blocks);
    round_shared_sum(pass.runtime, attended.own.log_sum_exp, SumOver::key_blocks);
  }
  return attended;
}

void backward_attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                     const Heads& v, const Attended& forward, const Tensor& dy, const Heads& dq,
                     const Heads& dk, const Heads& dv) {
  if (pass.parallel.context == nullptr) {
    attention_backward(pass.runtime, shape, q, k, v, forward.own, dy, dq, dk, dv);
    round_heads(pass.runtime, dk, shape.num_groups * shape.head_size, SumOver::query_shares);
    round_heads(pass.runtime, dv, shape.num_groups * shape.head_size, SumOver::query_shares);
    if (merges_in(q.tensor.dtype())) {
      round_heads(pass.runtime, dq, shape.num_heads * shape.head_size, SumOver::key_blocks);
    }
    return;
  }
  pass.parallel.context->backward(pass.runtime, shape, q, k, v, forward, dy, dq, dk, dv);
}

}  // namespace shardsim
