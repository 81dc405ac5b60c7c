#include "strategies/model/attend.hpp"

#include "strategies/model/shared_sum.hpp"
#include "strategies/sharding/context_parallel.hpp"

namespace shardsim {

Attended attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                const Heads& v) {
  if (pass.parallel.context != nullptr) {
    return pass.parallel.context->forward(pass.runtime, shape, q, k, v);
  }
  Attended attended{.own = attention_forward(pass.runtime, shape, q, k, v),
                    .exchanged_qkv = {},
                    .exchanged_y = {}};
  round_shared_sum(pass.runtime, attended.own.y, SumOver::context);
  return attended;
}

void backward_attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                     const Heads& v, const Attended& forward, const Tensor& dy, const Heads& dq,
                     const Heads& dk, const Heads& dv) {
  if (pass.parallel.context == nullptr) {
    attention_backward(pass.runtime, shape, q, k, v, forward.own, dy, dq, dk, dv);
    round_shared_sum(pass.runtime, dq.tensor, SumOver::context);
    for (const Heads* each : {&dk, &dv}) {  // Heads that share a tensor begin at different places.
      if (each->first != dq.first) continue;
      round_shared_sum(pass.runtime, each->tensor, SumOver::context);
    }
    return;
  }
  pass.parallel.context->backward(pass.runtime, shape, q, k, v, forward, dy, dq, dk, dv);
}

}  // namespace shardsim
