#include "strategies/model/low_products.hpp"

#include <vector>

#include "strategies/model/quantized_data.hpp"

namespace shardsim {

namespace {

RowMatrix weight_of(const LowProduct& product, CopyDirection direction, const Tensor& weight) {
  const QuantizedForm form{row_of(product.recipe), format_of(product.recipe, Operand::value),
                           /*is_weight=*/true, direction};
  return decode(weight, form, product.n, product.k);
}

RowMatrix tokens_of(const LowProduct& product, Operand operand, CopyDirection direction,
                    const Tensor& tokens, std::int64_t width) {
  const QuantizedForm form{row_of(product.recipe), format_of(product.recipe, operand),
                           /*is_weight=*/false, direction};
  return decode(tokens, form, num_rows(tokens), width);
}

// Rows of tokens that one matrix multiplies.
struct RowsOfMatrix {
  std::int64_t matrix;
  std::int64_t first;
  std::int64_t count;
};

// Each expert has equally many runs, one after the other.
std::vector<RowsOfMatrix> rows_of_matrices(const LowProduct& product, const Tensor& tokens,
                                           CopyDirection direction, std::int64_t all_rows) {
  const std::vector<QuantizedScales::Run>& runs = tokens.scales().runs;
  if (runs.empty()) return {{0, 0, all_rows}};
  const QuantizedForm form{row_of(product.recipe), kE4m3, /*is_weight=*/false, direction};
  const std::int64_t of_each = std::ssize(runs) / product.experts;
  std::vector<RowsOfMatrix> rows;
  std::int64_t first = 0;
  for (const QuantizedScales::Run& run : runs) {
    rows.push_back({std::ssize(rows) / of_each, first, form.read(run.rows)});
    first += form.read(run.rows);
  }
  return rows;
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

std::int64_t LowProduct::weight_bytes() const {
  return experts * row_of(recipe).weight_bytes(n, k);
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
    const RowMatrix tokens = tokens_of(product, Operand::value, CopyDirection::rows, x, product.k);
    const RowMatrix matrices = weight_of(product, CopyDirection::rows, weight);
    RowMatrix result(tokens.rows(), product.n);
    for (const auto& [matrix, first, count] :
         rows_of_matrices(product, x, CopyDirection::rows, tokens.rows())) {
      auto part = result.middleRows(first, count);
      part = tokens.middleRows(first, count) *
             matrices.middleRows(matrix * product.n, product.n).transpose();
      if (bias.defined()) part.rowwise() += rows_of(bias, matrix, 1, product.n).row(0);
    }
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
    const RowMatrix tokens =
        tokens_of(product, Operand::gradient, CopyDirection::rows, dy, product.n);
    const RowMatrix matrices = weight_of(product, CopyDirection::columns, weight);
    RowMatrix result(tokens.rows(), product.k);
    for (const auto& [matrix, first, count] :
         rows_of_matrices(product, dy, CopyDirection::rows, tokens.rows())) {
      result.middleRows(first, count) =
          tokens.middleRows(first, count) * matrices.middleRows(matrix * product.n, product.n);
    }
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
    const RowMatrix gradients =
        tokens_of(product, Operand::gradient, CopyDirection::columns, dy, product.n);
    const RowMatrix tokens = tokens_of(product, Operand::value, CopyDirection::columns, x, inputs);
    RowMatrix result = RowMatrix::Zero(product.experts * product.n, inputs);
    for (const auto& [matrix, first, count] :
         rows_of_matrices(product, dy, CopyDirection::columns, tokens.rows())) {
      result.middleRows(matrix * product.n, product.n) +=
          gradients.middleRows(first, count).transpose() * tokens.middleRows(first, count);
    }
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

}  // namespace shardsim
