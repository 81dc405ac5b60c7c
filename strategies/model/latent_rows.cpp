#include "strategies/model/latent_rows.hpp"

#include "strategies/model/columns.hpp"

namespace shardsim {

LatentKeys spread_keys(Runtime& runtime, const Tensor& kv, const Tensor& shared,
                       const LatentHead& head) {
  const std::int64_t own_width = head.own + head.value;
  const std::int64_t heads = last_dim(kv) / own_width;
  require_size("latent keys", "width of keys and values", last_dim(kv), heads * own_width);
  require_size("latent keys", "width of the shared part", last_dim(shared), head.shared);
  require_size("latent keys", "rows of the shared part", num_rows(shared), num_rows(kv));
  const std::int64_t width = head.own + head.shared;
  LatentKeys out{new_activation(runtime, with_last(kv.shape(), heads * width), kv.dtype()),
                 new_activation(runtime, with_last(kv.shape(), heads * head.value), kv.dtype())};
  const std::int64_t bytes =
      kv.num_bytes() + shared.num_bytes() + out.k.num_bytes() + out.v.num_bytes();
  runtime.compute(memory_op("spread_keys", kv.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < heads; ++i) {
      copy_columns({kv, i * own_width, head.own}, {out.k, i * width, head.own});
      copy_columns(all_columns(shared), {out.k, i * width + head.own, head.shared});
      copy_columns({kv, i * own_width + head.own, head.value}, {out.v, i * head.value, head.value});
    }
  });
  return out;
}

LatentKeyGradients spread_keys_backward(Runtime& runtime, const LatentKeys& gradients,
                                        const LatentHead& head) {
  const Tensor& dk = gradients.k;
  const Tensor& dv = gradients.v;
  const std::int64_t width = head.own + head.shared;
  const std::int64_t own_width = head.own + head.value;
  const std::int64_t heads = last_dim(dk) / width;
  require_size("latent keys backward", "width of values", last_dim(dv), heads * head.value);
  LatentKeyGradients out{
      new_activation(runtime, with_last(dk.shape(), heads * own_width), dk.dtype()),
      new_activation(runtime, with_last(dk.shape(), head.shared), dk.dtype())};
  const std::int64_t bytes =
      dk.num_bytes() + dv.num_bytes() + out.kv.num_bytes() + out.shared.num_bytes();
  runtime.compute(memory_op("spread_keys_backward", dk.dtype(), bytes), [&] {
    for (std::int64_t i = 0; i < heads; ++i) {
      copy_columns({dk, i * width, head.own}, {out.kv, i * own_width, head.own});
      copy_columns({dv, i * head.value, head.value},
                   {out.kv, i * own_width + head.own, head.value});
    }
    for (std::int64_t row = 0; row < num_rows(dk); ++row) {
      for (std::int64_t i = 0; i < head.shared; ++i) {
        double sum = 0.0;
        for (std::int64_t a = 0; a < heads; ++a) {
          sum += dk.get((row * heads + a) * width + head.own + i);
        }
        out.shared.set(row * head.shared + i, sum);
      }
    }
  });
  return out;
}

Tensor join_columns(Runtime& runtime, const Tensor& left, const Tensor& right) {
  require_size("join columns", "number of rows", num_rows(right), num_rows(left));
  const std::int64_t first = last_dim(left);
  Tensor y =
      new_activation(runtime, with_last(left.shape(), first + last_dim(right)), left.dtype());
  runtime.compute(memory_op("join_columns", left.dtype(), 2 * y.num_bytes()), [&] {
    copy_columns(all_columns(left), {y, 0, first});
    copy_columns(all_columns(right), {y, first, last_dim(right)});
  });
  return y;
}

}  // namespace shardsim
