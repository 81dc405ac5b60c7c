#include "strategies/model/low_precision.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/quantized_data.hpp"

namespace shardsim {

namespace {

constexpr std::array<RecipeRow, 6> kRecipes = {{
    {"none", DType::bf16, 0, 0, 1, false, false, false, false, false},
    {"delayed", DType::fp8_e4m3, 0, 0, 1, false, false, true, false, false},
    {"tensorwise", DType::fp8_e4m3, 0, 0, 1, true, false, true, false, true},
    {"blockwise", DType::fp8_e4m3, 128, 4, 128, false, true, false, false, true},
    {"mxfp8", DType::fp8_e4m3, 32, 1, 1, false, false, false, false, true},
    {"nvfp4", DType::fp4_e2m1, 16, 1, 1, true, false, false, true, false},
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

// The largest element of x and of the parts that others have; undefined if no scale needs it.
Tensor find_largest(Runtime& runtime, const LowPrecision& low, const Tensor& x,
                    const ScaleGroups& groups, Written by) {
  if (!row_of(low.recipe).reads_for_scale) return {};
  Tensor largest = new_activation(runtime, {1}, DType::fp32);
  // A norm does not see what a transform makes of its output.
  const bool norm_may = by == Written::by_norm && !row_of(low.recipe).transforms;
  const KernelFamily family = norm_may ? KernelFamily::amax_of_norm : KernelFamily::amax;
  runtime.compute(memory_op("amax", x.dtype(), x.num_bytes(), family),
                  [&] { largest.set(0, static_cast<double>(largest_of(x))); });
  for (Communicator* group : {groups.tensor, groups.context}) {
    if (group == nullptr) continue;
    group->all_reduce(largest, ReduceOp::max, {.label = "largest element"}).wait();
  }
  return largest;
}

// A tensor to quantize, and the way.
struct Cast {
  const LowPrecision& low;
  const Tensor& x;
  Operand operand;
  bool is_weight;
  const ScaleGroups& groups;
  Written by = Written::by_others;
};

void encode_copies(const Cast& cast, const QuantizedTensor& made, const Tensor& largest) {
  const RecipeRow& recipe = row_of(cast.low.recipe);
  const bool is_matrix = !cast.is_weight || cast.x.shape().rank() == 2;
  if (!recipe.casts_data || !is_matrix) {
    throw UsageError("E0680",
                     concat(is_matrix ? recipe.name : "products of experts in low precision",
                            ": this has prices, but no data yet"),
                     "use execution.tensors meta, or another recipe");
  }
  const NarrowFormat& format = format_of(cast.low.recipe, cast.operand);
  const float multiplier =
      largest.defined() ? multiplier_of(static_cast<float>(largest.get(0)), format) : 1.0F;
  const RowMatrix x = matrix_of(cast.x);
  const auto write = [&](CopyDirection direction, const Tensor& bytes) {
    if (!bytes.defined()) return;
    const QuantizedLayout layout = cast.is_weight
                                       ? layout_of_weight(recipe, direction, x.rows(), x.cols())
                                       : layout_of_tokens(recipe, direction, x.rows(), x.cols());
    encode(x, recipe, format, layout, multiplier, bytes);
  };
  write(CopyDirection::rows, made.rows);
  if (!made.columns.shares_storage(made.rows)) write(CopyDirection::columns, made.columns);
}

// Runs the kernels that make copies of x.
void run_casts(Runtime& runtime, const Cast& cast, const QuantizedTensor& made) {
  const Tensor largest = find_largest(runtime, cast.low, cast.x, cast.groups, cast.by);
  std::int64_t bytes = cast.x.num_bytes();
  if (made.rows.defined()) bytes += made.rows.num_bytes();
  if (cast.low.has_two_copies() && made.columns.defined()) bytes += made.columns.num_bytes();
  runtime.compute(memory_op("quantize", cast.x.dtype(), bytes, KernelFamily::quantize),
                  [&] { encode_copies(cast, made, largest); });
}

// Matrices of a product, as numbers.

RowMatrix weight_of(const LowProduct& product, CopyDirection direction, const Tensor& weight) {
  const RecipeRow& recipe = row_of(product.recipe);
  return decode(weight, recipe, format_of(product.recipe, Operand::value),
                layout_of_weight(recipe, direction, product.n, product.k));
}

RowMatrix tokens_of(const LowProduct& product, Operand operand, CopyDirection direction,
                    const Tensor& tokens, std::int64_t width) {
  const RecipeRow& recipe = row_of(product.recipe);
  return decode(tokens, recipe, format_of(product.recipe, operand),
                layout_of_tokens(recipe, direction, num_rows(tokens), width));
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

const NarrowFormat& format_of(ScalingRecipe recipe, Operand operand) {
  const RecipeRow& row = row_of(recipe);
  if (row.dtype == DType::fp4_e2m1) return kE2m1;
  return operand == Operand::gradient && row.widens_gradients ? kE5m2 : kE4m3;
}

Tensor dequantize(Runtime& runtime, const LowPrecision& low, const Tensor& rows, std::int64_t width,
                  DType dtype, Operand operand) {
  Tensor x = new_activation(runtime, {num_rows(rows), width}, dtype);
  const std::int64_t bytes = rows.num_bytes() + x.num_bytes();
  runtime.compute(memory_op("dequantize", dtype, bytes, KernelFamily::quantize), [&] {
    const LowProduct product{.recipe = low.recipe};
    store(x, values_of(tokens_of(product, operand, CopyDirection::rows, rows, width)));
  });
  return x;
}

QuantizedTensor quantize(Runtime& runtime, const LowPrecision& low, const Tensor& x, Copies copies,
                         Operand operand, const ScaleGroups& groups, Written by) {
  QuantizedTensor made = copies_of(low, copies, [&] { return new_copy(runtime, low, x); });
  run_casts(runtime, {low, x, operand, /*is_weight=*/false, groups, by}, made);
  return made;
}

Tensor transposed(Runtime& runtime, const Tensor& rows) {
  Tensor columns = runtime.allocate(MemoryCategory::activations, rows.shape(), kBytes);
  const std::int64_t bytes = rows.num_bytes() + columns.num_bytes();
  runtime.compute(memory_op("transpose", kBytes, bytes, KernelFamily::quantize), [&] {
    std::copy_n(rows.data(), rows.num_bytes(), columns.data());
    columns.set_scale(rows.scale());
  });
  return columns;
}

std::int64_t LowProduct::weight_bytes() const {
  const RecipeRow& row = row_of(recipe);
  const std::int64_t scales = row.scales_of_row(k);
  const std::int64_t scale_rows = (n + row.weight_rows - 1) / row.weight_rows;
  return experts * (n * (row.row_bytes(k) - scales) + scale_rows * scales);
}

Tensor low_forward(Runtime& runtime, const LowProduct& product, const Tensor& x,
                   const Tensor& weight, const Tensor& bias, DType dtype) {
  Tensor y = new_activation(runtime, with_last(x.shape(), product.n), dtype);
  low_forward_to(runtime, product, x, weight, bias, y);
  return y;
}

void low_forward_to(Runtime& runtime, const LowProduct& product, const Tensor& x,
                    const Tensor& weight, const Tensor& bias, const Tensor& y) {
  std::int64_t bytes = x.num_bytes() + product.weight_bytes() + y.num_bytes();
  if (bias.defined()) bytes += bias.num_bytes();
  ComputeOp op = product_op("linear", product, num_rows(x), product.n, product.k, bytes);
  share_rows(op, product, &KernelShape::m);
  runtime.compute(op, [&] {
    RowMatrix result = tokens_of(product, Operand::value, CopyDirection::rows, x, product.k) *
                       weight_of(product, CopyDirection::rows, weight).transpose();
    if (bias.defined()) result.rowwise() += matrix_of(bias).row(0);
    store(y, values_of(result));
  });
}

Tensor low_backward_input(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                          const Tensor& weight, DType dtype, Tensor dx) {
  const bool adds = dx.defined();
  if (!adds) dx = new_activation(runtime, with_last(dy.shape(), product.k), dtype);
  low_backward_input_to(runtime, product, dy, weight, dx, adds);
  return dx;
}

void low_backward_input_to(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                           const Tensor& weight, const Tensor& dx, bool adds) {
  const std::int64_t bytes =
      dy.num_bytes() + product.weight_bytes() + (adds ? 2 : 1) * dx.num_bytes();
  ComputeOp op =
      product_op("linear_backward_input", product, num_rows(dy), product.k, product.n, bytes);
  share_rows(op, product, &KernelShape::m);
  runtime.compute(op, [&] {
    const RowMatrix result =
        tokens_of(product, Operand::gradient, CopyDirection::rows, dy, product.n) *
        weight_of(product, CopyDirection::columns, weight);
    if (adds) return add_values(dx, values_of(result));
    store(dx, values_of(result));
  });
}

void low_backward_weight(Runtime& runtime, const LowProduct& product, const Tensor& dy,
                         const Tensor& x, const Tensor& weight_gradient) {
  const std::int64_t bytes = x.num_bytes() + dy.num_bytes() + 2 * weight_gradient.num_bytes();
  const std::int64_t inputs = weight_gradient.numel() / (product.n * product.experts);
  ComputeOp op = product_op("linear_backward_weight", product, product.n, inputs, num_rows(x),
                            bytes, KernelFamily::weight_gradient);
  share_rows(op, product, &KernelShape::k);
  runtime.compute(op, [&] {
    const RowMatrix result =
        tokens_of(product, Operand::gradient, CopyDirection::columns, dy, product.n).transpose() *
        tokens_of(product, Operand::value, CopyDirection::columns, x, inputs);
    add_values(weight_gradient, values_of(result));
  });
}

Tensor numbers_of(Runtime& runtime, ScalingRecipe recipe, Operand operand, const Tensor& columns,
                  std::int64_t width) {
  const RowMatrix numbers =
      tokens_of({.recipe = recipe}, operand, CopyDirection::columns, columns, width);
  Tensor tensor = new_activation(runtime, {numbers.rows(), numbers.cols()}, DType::fp64);
  store(tensor, values_of(numbers));
  return tensor;
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

// The columns of codes that are there, if they are another copy: each square block is transposed.
// Other recipes have sent the copy that is read. Prices alone (narrow_weights.hpp).
QuantizedTensor columns_of_codes(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                 Copies copies) {
  const bool is_there = copies == Copies::rows || !row_of(low.recipe).is_square();
  if (is_there || !low.has_two_copies()) return {};
  QuantizedTensor made = copies_of_weight(runtime, low, weight, Copies::columns);
  runtime.compute(
      memory_op("transpose", kBytes, 2 * made.columns.num_bytes(), KernelFamily::quantize), [] {});
  return made;
}

}  // namespace

QuantizedTensor quantize_weight(Runtime& runtime, const LowPrecision& low, const Tensor& weight,
                                Copies copies, const ScaleGroups& groups) {
  if (low.keeps_codes) return columns_of_codes(runtime, low, weight, copies);
  QuantizedTensor made = copies_of_weight(runtime, low, weight, copies);
  run_casts(runtime, {low, weight, Operand::value, /*is_weight=*/true, groups}, made);
  return made;
}

QuantizedTensor QuantizedWeights::copies_of(const Tensor& weight) const {
  for (const auto& [index, entry] : entries_) {
    if (entry.place == weight.wire_data() && entry.step == step_) return entry.copies;
  }
  throw UsageError("E0682", "a product reads a weight that no step has quantized",
                   "list the weight among the parameters of its module");
}

void QuantizedWeights::make(Runtime& runtime, const LowPrecision& low, int index,
                            const Tensor& weight, const ScaleGroups& groups) {
  Entry& entry = entries_[index];
  if (entry.step == step_) return;
  if (low.keeps_codes) {
    entry.step = step_;
    if (entry.copies.columns.defined()) entry.copies = {};
    entry.copies = columns_of_codes(runtime, low, weight, Copies::both);
    return;
  }
  if (!entry.copies.rows.defined()) {
    entry.copies = copies_of_weight(runtime, low, weight, Copies::both);
  }
  run_casts(runtime, {low, weight, Operand::value, /*is_weight=*/true, groups}, entry.copies);
  runtime.off_the_clock([&] { entry.place = weight.wire_data(); });
  entry.step = step_;
}

}  // namespace shardsim
