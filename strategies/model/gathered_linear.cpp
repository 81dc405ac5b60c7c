#include "strategies/model/gathered_linear.hpp"

#include <utility>

#include "strategies/model/columns.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

Tensor apply_gathered_linear(const Pass& pass, int k, const Tensor& x, const char* layer) {
  TensorParallel* parallel = pass.parallel.tensor;
  Tensor part = linear_forward(pass.runtime, enter_region(pass, x, layer), pass.weight(k), {});
  if (parallel == nullptr) return part;
  parallel->end_region(layer);
  const std::int64_t rows = num_rows(part);
  const std::int64_t width = last_dim(part);
  const std::int64_t t = parallel->size();
  // [t, rows, n / t]: each rank's columns of all rows.
  const Tensor all = pass.runtime.allocate(MemoryCategory::comm, {t * rows, width}, part.dtype());
  parallel->group().all_gather(all, part, {.label = "column output"}).wait();
  Tensor y = new_activation(pass.runtime, with_last(x.shape(), t * width), part.dtype());
  part = {};
  const std::int64_t own = num_rows(x);
  const std::int64_t first = parallel->first_token(own);
  pass.runtime.compute(memory_op("gather_columns", y.dtype(), 2 * y.num_bytes()), [&] {
    for (std::int64_t rank = 0; rank < t; ++rank) {
      const Tensor of_rank = all.view((rank * rows + first) * width, {own, width});
      copy_columns(all_columns(of_rank), {y, rank * width, width});
    }
  });
  return y;
}

Tensor backward_gathered_linear(const Pass& pass, int k, const Tensor& dy, Tensor x,
                                const char* layer) {
  TensorParallel* parallel = pass.parallel.tensor;
  ColumnLinear reader{.k = k, .dy = dy};
  if (parallel != nullptr) {
    const Tensor all = parallel->gather_tokens(pass.runtime, dy, "column output gradient").take();
    const std::int64_t width = last_dim(dy) / parallel->size();
    Shape shape = with_last(all.shape(), width);
    if (parallel->sequence_parallel()) {
      shape = {num_rows(all) / pass.seq_len, pass.seq_len, width};
    }
    reader.dy = new_activation(pass.runtime, shape, dy.dtype());
    const Columns own{all, parallel->rank() * width, width};
    const std::int64_t bytes = 2 * reader.dy.num_bytes();
    pass.runtime.compute(memory_op("own_columns", dy.dtype(), bytes),
                         [&] { copy_columns(own, all_columns(reader.dy)); });
    parallel->begin_region(layer);
  }
  return backward_columns(pass, {&reader, 1}, std::move(x), layer);
}

}  // namespace shardsim
