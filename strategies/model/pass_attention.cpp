#include "strategies/model/pass.hpp"
#include "strategies/sharding/context_parallel.hpp"

// The attention of a block as pass.hpp declares it.
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

Attended attend(const Pass& pass, const AttentionShape& shape, const QkvHeads& qkv, int sinks) {
  const Sinks numbers{sinks < 0 ? Tensor() : pass.weight(sinks)};
  if (pass.parallel.context != nullptr) {
    return pass.parallel.context->forward(pass.runtime, shape, qkv, numbers);
  }
  Attended attended{
      .own = attention_forward(pass.runtime, shape, qkv), .exchanged_qkv = {}, .exchanged_y = {}};
  if (merges_in(qkv.q.tensor.dtype())) {
    round_shared_sum(pass.runtime, attended.own.y, SumOver::key_blocks);
    round_shared_sum(pass.runtime, attended.own.log_sum_exp, SumOver::key_blocks);
  }
  add_sinks(pass.runtime, shape, numbers, attended.own);
  return attended;
}

namespace {

void backward_attend_to(const Pass& pass, const AttentionShape& shape, const QkvHeads& qkv,
                        const Attended& forward, const Tensor& dy, const QkvHeads& gradients,
                        const SinkSlopes& sinks) {
  if (pass.parallel.context != nullptr) {
    return pass.parallel.context->backward(pass.runtime, shape, qkv, forward, dy, gradients, sinks);
  }
  sinks_backward(pass.runtime, shape, sinks, forward.own, dy);
  attention_backward(pass.runtime, shape, qkv, forward.own, dy, gradients);
  round_heads(pass.runtime, gradients.k, shape.k_row(), SumOver::query_shares);
  round_heads(pass.runtime, gradients.v, shape.v_row(), SumOver::query_shares);
  if (merges_in(qkv.q.tensor.dtype())) {
    round_heads(pass.runtime, gradients.q, shape.q_row(), SumOver::key_blocks);
  }
}

}  // namespace

void backward_attend(const Pass& pass, const AttentionShape& shape, const QkvHeads& qkv,
                     const Attended& forward, const Tensor& dy, const QkvHeads& gradients,
                     int sinks) {
  if (sinks < 0) return backward_attend_to(pass, shape, qkv, forward, dy, gradients, {});
  Tensor slope;
  {
    const Tensor numbers = pass.weight(sinks);
    slope = gradient_of_sum(pass, sinks, numbers);
    backward_attend_to(pass, shape, qkv, forward, dy, gradients, {{numbers}, slope});
  }
  finish_sum(pass, sinks, std::move(slope));
}

}  // namespace shardsim
