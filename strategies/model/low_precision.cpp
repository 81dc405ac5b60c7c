#include "strategies/model/low_precision.hpp"

#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::array<RecipeRow, 6> kRecipes = {{
    {"none", DType::bf16, 0, 0, 1, false, false},
    {"delayed", DType::fp8_e4m3, 0, 0, 1, false, false},
    {"tensorwise", DType::fp8_e4m3, 0, 0, 1, true, false},
    {"blockwise", DType::fp8_e4m3, 128, 4, 128, false, true},
    {"mxfp8", DType::fp8_e4m3, 32, 1, 1, false, false},
    {"nvfp4", DType::fp4_e2m1, 16, 1, 1, true, false},
}};

constexpr DType kBytes = DType::fp8_e4m3;  // The type of tensors that are quantized.

Tensor new_copy(Runtime& runtime, const LowPrecision& low, const Tensor& x) {
  const std::int64_t width = row_of(low.recipe).row_bytes(last_dim(x));
  return runtime.allocate(MemoryCategory::activations, with_last(x.shape(), width), kBytes);
}

// The copies of a tensor, each made by `make`.
template <typename Make>
QuantizedTensor copies_of(const LowPrecision& low, Copies copies, const Make& make) {
  QuantizedTensor made;
  if (!low.has_two_copies()) {
    made.rows = make();
    made.columns = made.rows;
    return made;
  }
  if (copies != Copies::columns) made.rows = make();
  if (copies != Copies::rows) made.columns = make();
  return made;
}

// The arithmetic of a cast.
[[noreturn]] void refuse_data() {
  throw UsageError("E0680", "products in low precision have prices, but no data yet",
                   "use execution.tensors meta, or precision bf16");
}

// The kernels that make copies of x.
void charge_casts(Runtime& runtime, const LowPrecision& low, const Tensor& x,
                  const QuantizedTensor& made) {
  std::int64_t bytes = x.num_bytes();
  if (row_of(low.recipe).reads_for_scale) {
    runtime.compute(memory_op("amax", x.dtype(), bytes, KernelFamily::amax), [] {});
  }
  if (made.rows.defined()) bytes += made.rows.num_bytes();
  if (low.has_two_copies() && made.columns.defined()) bytes += made.columns.num_bytes();
  runtime.compute(memory_op("quantize", x.dtype(), bytes, KernelFamily::quantize), refuse_data);
}

ComputeOp product_op(const char* name, const LowProduct& product, std::int64_t m, std::int64_t n,
                     std::int64_t k, std::int64_t bytes,
                     KernelFamily family = KernelFamily::matrix_product) {
  const RecipeRow& row = row_of(product.recipe);
  ComputeOp op = matmul_op(name, row.dtype, m, n, k, bytes, family);
  op.shape.has_block_scales = row.scales_on_cores;
  return op;
}

// Sizes of a kernel of several experts' products, each with its share of the rows.
void share_rows(ComputeOp& op, const LowProduct& product, std::int64_t KernelShape::*rows) {
  if (product.experts == 1) return;
  op.shape.batch = product.experts;
  op.shape.*rows = (op.shape.*rows + product.experts - 1) / product.experts;
}

}  // namespace

std::span<const RecipeRow> all_recipes() { return kRecipes; }

const RecipeRow& row_of(ScalingRecipe recipe) {
  return kRecipes.at(static_cast<std::size_t>(recipe));
}

QuantizedTensor quantize(Runtime& runtime, const LowPrecision& low, const Tensor& x,
                         Copies copies) {
  QuantizedTensor made = copies_of(low, copies, [&] { return new_copy(runtime, low, x); });
  charge_casts(runtime, low, x, made);
  return made;
}

Tensor transposed(Runtime& runtime, const Tensor& rows) {
  Tensor columns = runtime.allocate(MemoryCategory::activations, rows.shape(), kBytes);
  const std::int64_t bytes = rows.num_bytes() + columns.num_bytes();
  runtime.compute(memory_op("transpose", kBytes, bytes, KernelFamily::quantize), [] {});
  return columns;
}

std::int64_t LowProduct::weight_bytes() const {
  const RecipeRow& row = row_of(recipe);
  const std::int64_t scales = row.scales_of_row(k);
  const std::int64_t scale_rows = (n + row.weight_rows - 1) / row.weight_rows;
  return experts * (n * (row.row_bytes(k) - scales) + scale_rows * scales);
}

Tensor low_forward(Runtime& runtime, const LowProduct& product, const Tensor& x, const Tensor& bias,
                   DType dtype) {
  Tensor y = new_activation(runtime, with_last(x.shape(), product.n), dtype);
  std::int64_t bytes = x.num_bytes() + product.weight_bytes() + y.num_bytes();
  if (bias.defined()) bytes += bias.num_bytes();
  ComputeOp op = product_op("linear", product, num_rows(x), product.n, product.k, bytes);
  share_rows(op, product, &KernelShape::m);
  runtime.compute(op, [] {});
  return y;
}

Tensor low_backward_input(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                          DType dtype, Tensor dx) {
  const bool adds = dx.defined();
  if (!adds) dx = new_activation(runtime, with_last(dy.shape(), product.k), dtype);
  const std::int64_t bytes =
      dy.num_bytes() + product.weight_bytes() + (adds ? 2 : 1) * dx.num_bytes();
  ComputeOp op =
      product_op("linear_backward_input", product, num_rows(dy), product.k, product.n, bytes);
  share_rows(op, product, &KernelShape::m);
  runtime.compute(op, [] {});
  return dx;
}

void low_backward_weight(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                         const Tensor& x, const Tensor& weight_gradient) {
  const std::int64_t bytes = x.num_bytes() + dy.num_bytes() + 2 * weight_gradient.num_bytes();
  const std::int64_t inputs = weight_gradient.numel() / (product.n * product.experts);
  ComputeOp op = product_op("linear_backward_weight", product, product.n, inputs, num_rows(x),
                            bytes, KernelFamily::weight_gradient);
  share_rows(op, product, &KernelShape::k);
  runtime.compute(op, [] {});
}

LowProduct product_of(const LowPrecision& low, const Tensor& weight) {
  const Shape& shape = weight.shape();
  const int inputs = shape.rank() - 1;
  return {low.recipe, shape[inputs - 1], shape[inputs], inputs == 2 ? shape[0] : 1};
}

namespace {

QuantizedTensor copies_of_weight(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                 Copies copies) {
  const Shape bytes{product_of(low, weight).weight_bytes()};
  return copies_of(low, copies,
                   [&] { return runtime.allocate(MemoryCategory::params, bytes, kBytes); });
}

}  // namespace

QuantizedTensor quantize_weight(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                Copies copies) {
  QuantizedTensor made = copies_of_weight(runtime, low, weight, copies);
  charge_casts(runtime, low, weight, made);
  return made;
}

void QuantizedWeights::make(Runtime& runtime, const LowPrecision& low, int index,
                            const Tensor& weight) {
  Entry& entry = entries_[index];
  if (entry.step == step_) return;
  if (!entry.copies.rows.defined()) {
    entry.copies = copies_of_weight(runtime, low, weight, Copies::both);
  }
  charge_casts(runtime, low, weight, entry.copies);
  entry.step = step_;
}

}  // namespace shardsim
