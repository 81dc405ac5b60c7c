#include "strategies/model/gathered_linear.hpp"

#include <utility>

#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

// Columns [from, from + to's width) of rows from `first` on.
struct Columns {
  Tensor rows;
  std::int64_t first;
  std::int64_t from;
};

void copy_columns(Runtime& runtime, const char* name, const Columns& source, const Columns& target,
                  std::int64_t width, std::int64_t count) {
  const std::int64_t source_row = last_dim(source.rows);
  const std::int64_t target_row = last_dim(target.rows);
  const std::int64_t bytes = 2 * count * width * size_of(target.rows.dtype());
  runtime.compute(memory_op(name, target.rows.dtype(), bytes), [&] {
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        const double value = source.rows.get((source.first + row) * source_row + source.from + i);
        target.rows.set((target.first + row) * target_row + target.from + i, value);
      }
    }
  });
}

}  // namespace

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
  for (std::int64_t rank = 0; rank < t; ++rank) {
    copy_columns(pass.runtime, "gather_columns", {all, rank * rows + first, 0},
                 {y, 0, rank * width}, width, own);
  }
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
    copy_columns(pass.runtime, "own_columns", {all, 0, parallel->rank() * width}, {reader.dy, 0, 0},
                 width, num_rows(all));
    parallel->begin_region(layer);
  }
  return backward_columns(pass, {&reader, 1}, std::move(x), layer);
}

Tensor join_rows(Runtime& runtime, const Tensor& first, const Tensor& second) {
  const std::int64_t n = last_dim(first);
  Tensor rows = new_activation(runtime, with_last(first.shape(), 2 * n), first.dtype());
  copy_columns(runtime, "join_rows", {first, 0, 0}, {rows, 0, 0}, n, num_rows(first));
  copy_columns(runtime, "join_rows", {second, 0, 0}, {rows, 0, n}, n, num_rows(first));
  return rows;
}

RowHalves halve_rows(Runtime& runtime, const Tensor& rows) {
  const std::int64_t n = last_dim(rows) / 2;
  const auto half = [&](std::int64_t from) {
    Tensor part = new_activation(runtime, with_last(rows.shape(), n), rows.dtype());
    copy_columns(runtime, "halve_rows", {rows, 0, from}, {part, 0, 0}, n, num_rows(rows));
    return part;
  };
  RowHalves halves;
  halves.first = half(0);
  halves.second = half(n);
  return halves;
}

}  // namespace shardsim
