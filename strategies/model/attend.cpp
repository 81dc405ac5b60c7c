#include "strategies/model/attend.hpp"

#include "strategies/sharding/context_parallel.hpp"

namespace shardsim {

Attended attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                const Heads& v) {
  if (pass.parallel.context != nullptr) {
    return pass.parallel.context->forward(pass.runtime, shape, q, k, v);
  }
  return {.own = attention_forward(pass.runtime, shape, q, k, v),
          .exchanged_qkv = {},
          .exchanged_y = {}};
}

void backward_attend(const Pass& pass, const AttentionShape& shape, const Heads& q, const Heads& k,
                     const Heads& v, const Attended& forward, const Tensor& dy, const Heads& dq,
                     const Heads& dk, const Heads& dv) {
  if (pass.parallel.context == nullptr) {
    return attention_backward(pass.runtime, shape, q, k, v, forward.own, dy, dq, dk, dv);
  }
  pass.parallel.context->backward(pass.runtime, shape, q, k, v, forward, dy, dq, dk, dv);
}

}  // namespace shardsim
