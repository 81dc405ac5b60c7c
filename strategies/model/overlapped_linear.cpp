#include "strategies/model/overlapped_linear.hpp"

#include <utility>

#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

namespace {

Tensor rows_from(const Tensor& x, std::int64_t first, std::int64_t rows) {
  const std::int64_t width = last_dim(x);
  return x.view(first * width, {rows, width});
}

// A linear layer's products for some of the rows. Its weight is fetched once.
class RowsOfProduct {
 public:
  // `reads`: whether its operand is quantized.
  RowsOfProduct(const Pass& pass, int k, bool reads_quantized, Copies copies) : pass_(pass) {
    if (reads_quantized) {
      low_ = quantized_weight(pass, k, copies);
    } else {
      low_.weight = pass.weight(k);
    }
    is_quantized_ = reads_quantized;
  }
  void set_bias(Tensor bias) { bias_ = std::move(bias); }

  [[nodiscard]] DType dtype() const { return low_.weight.dtype(); }
  [[nodiscard]] std::int64_t outputs() const { return low_.weight.shape()[0]; }
  [[nodiscard]] std::int64_t inputs() const { return low_.weight.shape()[1]; }

  void forward(const Tensor& x, const Tensor& y) const {
    if (is_quantized_) {
      return low_forward_to(pass_.runtime, low_.product, x, low_.made.rows, bias_, y);
    }
    linear_forward_to(pass_.runtime, x, low_.weight, bias_, y);
  }
  void backward_input(const Tensor& dy, const Tensor& dx) const {
    if (is_quantized_) {
      return low_backward_input_to(pass_.runtime, low_.product, dy, low_.made.columns, dx, false);
    }
    linear_backward_input_to(pass_.runtime, dy, low_.weight, dx, false);
  }

 private:
  const Pass& pass_;
  LinearWeight low_;
  Tensor bias_;
  bool is_quantized_ = false;
};

}  // namespace

bool overlaps(const Pass& pass) {
  return pass.parallel.tensor != nullptr && pass.parallel.tensor->overlaps();
}

Tensor apply_arriving(const Pass& pass, int k, bool has_bias, const Tensor& x) {
  RowsOfProduct product(pass, k, is_quantized(x), Copies::rows);
  if (has_bias) product.set_bias(pass.weight(k + 1));
  TensorParallel& parallel = *pass.parallel.tensor;
  Tensor y = new_activation(pass.runtime, with_last(x.shape(), product.outputs()), product.dtype());
  parallel.bringing(x)->each_shard([&](std::int64_t first, std::int64_t rows) {
    product.forward(rows_from(x, first, rows), rows_from(y, first, rows));
  });
  parallel.arrived();
  return y;
}

Tensor apply_row_overlapped(const Pass& pass, int k, const Tensor& x, const char* layer) {
  TensorParallel& parallel = *pass.parallel.tensor;
  parallel.end_region(layer);
  const RowsOfProduct product(pass, k, is_quantized(x), Copies::rows);
  const auto make = [&](std::int64_t first, std::int64_t rows) {
    Tensor part = new_activation(pass.runtime, {rows, product.outputs()}, product.dtype());
    product.forward(rows_from(x, first, rows), part);
    return part;
  };
  const std::int64_t rows = token_shard(num_rows(x), parallel.size(), layer);
  return reduce_round_ring(pass.runtime, parallel.group(), rows, make, "row output");
}

Tensor backward_row_overlapped(const Pass& pass, int k, const Tensor& dy, Tensor x,
                               const char* layer) {
  if (pass.low != nullptr && row_of(pass.low->recipe).block > 0) {
    return backward_row(pass, k, gather_gradient(pass, k, dy, layer), std::move(x));
  }
  TensorParallel& parallel = *pass.parallel.tensor;
  parallel.begin_region(layer);
  const Tensor shard =
      pass.low == nullptr
          ? dy
          : quantized(pass, dy, Copies::rows, Operand::gradient, {k, Held::tokens}).rows;
  const std::int64_t tokens = num_rows(shard) * parallel.size();
  const Shape whole{tokens / pass.seq_len, pass.seq_len, last_dim(shard)};
  LinearGradient all{
      pass.runtime.allocate(MemoryCategory::comm, whole, shard.dtype()), {}, last_dim(dy)};
  const RowsOfProduct product(pass, k, pass.low != nullptr, Copies::columns);
  Tensor dx = new_activation(pass.runtime, with_last(whole, product.inputs()), product.dtype());
  GatheringRing ring(pass.runtime, parallel.group(), all.rows, shard, "row output gradient");
  ring.each_shard([&](std::int64_t first, std::int64_t rows) {
    product.backward_input(rows_from(all.rows, first, rows), rows_from(dx, first, rows));
  });
  const bool transposes = pass.low != nullptr && pass.low->needs_transposes;
  all.columns = transposes ? transposed(pass.runtime, all.rows) : all.rows;
  finish_linear(pass, k, all, x);
  return dx;
}

}  // namespace shardsim
