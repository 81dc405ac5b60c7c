#include "strategies/model/quantized_data.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/low_products.hpp"
#include "strategies/model/quantized_weights.hpp"

#include "tests/strategies/quantized_definition.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Quantized tensors with data, against their definitions: scales from the largest elements of
// blocks, elements from lists of all numbers of a format.
namespace shardsim::test {
namespace {

using Recipe = ScalingRecipe;

constexpr std::array kWithData = {Recipe::tensorwise, Recipe::blockwise, Recipe::mxfp8};

// A scale for the whole tensor is then a power of two in both formats.
RowMatrix scaled_numbers(std::int64_t rows, std::int64_t width, int seed) {
  RowMatrix x = whole_numbers(rows, width, seed);
  x(0, 0) = 448.0;
  return x;
}

// The number that an element becomes beside the largest one that it shares its scale with.
double rounded(double value, double largest, Recipe recipe, const std::vector<double>& numbers) {
  if (largest == 0.0) return 0.0;
  const auto limit = static_cast<float>(numbers.back());
  const auto most = static_cast<float>(largest);
  double multiplier = static_cast<double>(limit / most);
  double scale = static_cast<double>(1.0F / (limit / most));
  if (recipe == Recipe::mxfp8) {
    scale = std::exp2(std::ceil(std::log2(static_cast<double>(most / limit))));
    multiplier = 1.0 / scale;
  } else if (recipe == Recipe::blockwise) {
    multiplier = std::exp2(std::floor(std::log2(multiplier)));
    scale = 1.0 / multiplier;
  }
  return nearest_number(value * multiplier, numbers) * scale;
}

// Scales of blocks of so many rows and columns; 0: of all.
RowMatrix quantized(const RowMatrix& x, Recipe recipe, const NarrowFormat& format,
                    std::int64_t block_rows, std::int64_t block_width) {
  if (block_rows == 0) block_rows = x.rows();
  if (block_width == 0) block_width = x.cols();
  const std::vector<double> all = numbers_of(format);
  RowMatrix result(x.rows(), x.cols());
  for (std::int64_t i = 0; i < x.rows(); i += block_rows) {
    for (std::int64_t j = 0; j < x.cols(); j += block_width) {
      const auto rows = std::min(block_rows, x.rows() - i);
      const auto width = std::min(block_width, x.cols() - j);
      const RowMatrix block = x.block(i, j, rows, width);
      const double largest = block.cwiseAbs().maxCoeff();
      result.block(i, j, rows, width) =
          block.unaryExpr([&](double value) { return rounded(value, largest, recipe, all); });
    }
  }
  return result;
}

RowMatrix tokens(const Tensor& bytes, Recipe recipe, Operand operand, CopyDirection direction,
                 std::int64_t width) {
  const QuantizedForm form{row_of(recipe), format_of(recipe, operand), false, direction};
  return decode(bytes, form, num_rows(bytes), width);
}

RowMatrix weight(const Tensor& bytes, Recipe recipe, CopyDirection direction, std::int64_t rows,
                 std::int64_t width) {
  return decode(bytes, {row_of(recipe), kE4m3, true, direction}, rows, width);
}

// The same of rows that are a tensor each, as those of experts.
RowMatrix quantized_runs(const RowMatrix& x, const std::vector<std::int64_t>& runs, Recipe recipe,
                         const NarrowFormat& format, std::int64_t block_rows,
                         std::int64_t block_width) {
  RowMatrix result(x.rows(), x.cols());
  std::int64_t first = 0;
  for (const std::int64_t rows : runs) {
    if (rows == 0) continue;
    result.middleRows(first, rows) =
        quantized(x.middleRows(first, rows), recipe, format, block_rows, block_width);
    first += rows;
  }
  return result;
}

bool same_bytes(const Tensor& a, const Tensor& b, std::int64_t from) {
  return std::memcmp(a.data() + from, b.data(), to_size(b.num_bytes())) == 0;
}

}  // namespace

TEST_CASE("K2: scales of tokens are those of the definition, in both directions") {
  for (const Recipe recipe : kWithData) {
    for (const Operand operand : {Operand::value, Operand::gradient}) {
      CAPTURE(row_of(recipe).name, operand == Operand::gradient);
      RecordingRuntime runtime(true);
      const NarrowFormat& format = format_of(recipe, operand);
      CHECK(format.largest ==
            (recipe == Recipe::tensorwise && operand == Operand::gradient ? 57344.0 : 448.0));
      const RowMatrix x = numbers(256, 384);
      const QuantizedTensor made =
          quantize(runtime, {.recipe = recipe, .needs_transposes = true}, tensor_of(runtime, x),
                   Copies::both, {.operand = operand});
      const std::int64_t block = row_of(recipe).block;
      const std::int64_t one = block == 0 ? 0 : 1;
      CHECK(tokens(made.rows, recipe, operand, CopyDirection::rows, 384) ==
            quantized(x, recipe, format, one, block));
      CHECK(tokens(made.columns, recipe, operand, CopyDirection::columns, 384) ==
            quantized(x, recipe, format, block, one));
    }
  }
}

TEST_CASE("K2: scales of weights are those of the definition, in both directions") {
  for (const Recipe recipe : kWithData) {
    CAPTURE(row_of(recipe).name);
    RecordingRuntime runtime(true);
    const RowMatrix x = numbers(256, 384);
    const LowPrecision low{.recipe = recipe, .needs_transposes = true};
    const QuantizedTensor made = quantize_weight(runtime, low, tensor_of(runtime, x), Copies::both);
    const RecipeRow& row = row_of(recipe);
    const std::int64_t rows = row.block == 0 ? 0 : row.weight_rows;
    CHECK(weight(made.rows, recipe, CopyDirection::rows, 256, 384) ==
          quantized(x, recipe, kE4m3, rows, row.block));
    CHECK(weight(made.columns, recipe, CopyDirection::columns, 256, 384) ==
          quantized(x, recipe, kE4m3, row.block, rows));
  }
}

TEST_CASE("a tensor of zeros stays one, and its scale is finite") {
  for (const Recipe recipe : kWithData) {
    RecordingRuntime runtime(true);
    const RowMatrix zeros = RowMatrix::Zero(128, 128);
    const QuantizedTensor made =
        quantize(runtime, {.recipe = recipe}, tensor_of(runtime, zeros), Copies::both);
    CHECK(tokens(made.rows, recipe, Operand::value, CopyDirection::rows, 128) == zeros);
    CHECK(tokens(made.columns, recipe, Operand::value, CopyDirection::columns, 128) == zeros);
  }
}

TEST_CASE("a share of the tokens is a share of the bytes") {
  for (const Recipe recipe : kWithData) {
    CAPTURE(row_of(recipe).name);
    RecordingRuntime runtime(true);
    const LowPrecision low{.recipe = recipe};
    RowMatrix x = numbers(256, 128);
    x(3, 5) = x(131, 7) = 1e4;  // Both halves have the same largest element.
    const auto made_of = [&](std::int64_t first, std::int64_t rows) {
      return quantize(runtime, low, tensor_of(runtime, x.middleRows(first, rows)), Copies::both);
    };
    const QuantizedTensor whole = made_of(0, 256);
    for (const std::int64_t first : {0, 128}) {
      const QuantizedTensor half = made_of(first, 128);
      CHECK(half.rows.scales().of_all == whole.rows.scales().of_all);
      CHECK(same_bytes(whole.rows, half.rows, first * last_dim(whole.rows)));
      CHECK(same_bytes(whole.columns, half.columns, first * last_dim(whole.columns)));
    }
  }
}

TEST_CASE("K16: scales of the other direction give other numbers") {
  for (const Recipe recipe : {Recipe::blockwise, Recipe::mxfp8}) {
    RecordingRuntime runtime(true);
    const QuantizedTensor made =
        quantize(runtime, {.recipe = recipe}, tensor_of(runtime, numbers(128, 128)), Copies::both);
    CHECK(tokens(made.rows, recipe, Operand::value, CopyDirection::columns, 128) !=
          tokens(made.rows, recipe, Operand::value, CopyDirection::rows, 128));
    CHECK(tokens(made.columns, recipe, Operand::value, CopyDirection::rows, 128) !=
          tokens(made.columns, recipe, Operand::value, CopyDirection::columns, 128));
  }
}

TEST_CASE("K3: products equal those of rounded matrices, element by element") {
  constexpr std::int64_t kRows = 128, kIn = 256, kOut = 384;
  for (const Recipe recipe : kWithData) {
    CAPTURE(row_of(recipe).name);
    RecordingRuntime runtime(true);
    const LowPrecision low{.recipe = recipe};
    const RowMatrix x = scaled_numbers(kRows, kIn, 1);
    const RowMatrix dy = scaled_numbers(kRows, kOut, 2);
    const RowMatrix w = scaled_numbers(kOut, kIn, 3);
    const RowMatrix b = scaled_numbers(1, kOut, 4);
    const QuantizedTensor qx = quantize(runtime, low, tensor_of(runtime, x), Copies::both);
    const QuantizedTensor qdy = quantize(runtime, low, tensor_of(runtime, dy), Copies::both,
                                         {.operand = Operand::gradient});
    const Tensor weight = tensor_of(runtime, w);
    const QuantizedTensor qw = quantize_weight(runtime, low, weight, Copies::both);
    const LowProduct product = product_of(low, weight);
    const std::int64_t block = row_of(recipe).block;
    const std::int64_t one = block == 0 ? 0 : 1;
    const std::int64_t of_weight = block == 0 ? 0 : row_of(recipe).weight_rows;
    const NarrowFormat& wide = format_of(recipe, Operand::gradient);

    const Tensor y =
        low_forward(runtime, product, qx.rows, qw.rows, tensor_of(runtime, b), DType::fp64);
    RowMatrix expected = quantized(x, recipe, kE4m3, one, block) *
                         quantized(w, recipe, kE4m3, of_weight, block).transpose();
    expected.rowwise() += b.row(0);
    CHECK(matrix_of(y) == expected);

    const Tensor dx = low_backward_input(runtime, product, qdy.rows, qw.columns, DType::fp64);
    const RowMatrix once =
        quantized(dy, recipe, wide, one, block) * quantized(w, recipe, kE4m3, block, of_weight);
    CHECK(matrix_of(dx) == once);
    (void)low_backward_input(runtime, product, qdy.rows, qw.columns, DType::fp64, dx);
    CHECK(matrix_of(dx) == once + once);

    const Tensor dw = new_activation(runtime, {kOut, kIn}, DType::fp64);
    low_backward_weight(runtime, product, qdy.columns, qx.columns, dw);
    low_backward_weight(runtime, product, qdy.columns, qx.columns, dw);
    const RowMatrix of_tokens = quantized(dy, recipe, wide, block, one).transpose() *
                                quantized(x, recipe, kE4m3, block, one);
    CHECK(matrix_of(dw) == of_tokens + of_tokens);
  }
}

TEST_CASE("what has no past is refused where it needs one, and so are parts of blocks") {
  RecordingRuntime runtime(true);
  const auto code_of = [&](Recipe recipe, std::int64_t rows, std::int64_t width) {
    try {
      (void)quantize(runtime, {.recipe = recipe},
                     new_activation(runtime, {rows, width}, DType::fp64), Copies::both);
    } catch (const UsageError& error) {
      return std::string(error.code());
    }
    return std::string();
  };
  CHECK(code_of(Recipe::delayed, 128, 128) == "E0680");  // It has no past.
  CHECK(code_of(Recipe::mxfp8, 40, 128) == "E0681");
  CHECK(code_of(Recipe::mxfp8, 64, 128).empty());
  CHECK(code_of(Recipe::mxfp8, 64, 40) == "E0681");
  CHECK(code_of(Recipe::blockwise, 128, 192) == "E0681");
  CHECK(code_of(Recipe::tensorwise, 3, 5).empty());
  for (const Shape& shape : {Shape{40, 64}, Shape{64, 40}}) {
    const Tensor weight = new_activation(runtime, shape, DType::fp64);
    CHECK_NOTHROW(quantize_weight(runtime, {.recipe = Recipe::mxfp8}, weight, Copies::rows));
    CHECK_THROWS_AS(quantize_weight(runtime, {.recipe = Recipe::mxfp8}, weight, Copies::columns),
                    UsageError);
  }
}

TEST_CASE("K3: products of experts equal those of rounded matrices, each with its own scales") {
  constexpr std::int64_t kIn = 128, kOut = 256, kExperts = 2;
  const std::vector<std::int64_t> runs = {40, 0, 129, 7};  // Two ranks' groups for each expert.
  const std::int64_t all = 40 + 129 + 7;
  for (const Recipe recipe : kWithData) {
    CAPTURE(row_of(recipe).name);
    RecordingRuntime runtime(true);
    const LowPrecision low{.recipe = recipe};
    const std::int64_t block = row_of(recipe).block;
    const std::int64_t one = block == 0 ? 0 : 1;
    const std::int64_t of_weight = block == 0 ? 0 : row_of(recipe).weight_rows;
    const NarrowFormat& wide = format_of(recipe, Operand::gradient);
    RowMatrix x = scaled_numbers(all, kIn, 1);
    RowMatrix dy = scaled_numbers(all, kOut, 2);
    RowMatrix w = scaled_numbers(kExperts * kOut, kIn, 3);
    const RowMatrix b = scaled_numbers(kExperts, kOut, 4);
    // Each has a scale of its own, which is a power of two.
    x(40, 3) = dy(40, 3) = w(kOut, 3) = 224.0;
    x(169, 3) = dy(169, 3) = 112.0;
    const QuantizedTensor qx =
        quantize(runtime, low, tensor_of(runtime, x), Copies::both, {.runs = runs});
    const QuantizedTensor qdy = quantize(runtime, low, tensor_of(runtime, dy), Copies::both,
                                         {.operand = Operand::gradient, .runs = runs});
    const Tensor experts = tensor_of(runtime, w).view(0, {kExperts, kOut, kIn});
    const QuantizedTensor qw = quantize_weight(runtime, low, experts, Copies::both);
    const LowProduct product = product_of(low, experts);
    const std::vector<std::int64_t> matrices(kExperts, kOut);
    const RowMatrix w_rows = quantized_runs(w, matrices, recipe, kE4m3, of_weight, block);
    const RowMatrix w_columns = quantized_runs(w, matrices, recipe, kE4m3, block, of_weight);
    const RowMatrix x_rows = quantized_runs(x, runs, recipe, kE4m3, one, block);
    const RowMatrix x_columns = quantized_runs(x, runs, recipe, kE4m3, block, one);
    const RowMatrix dy_rows = quantized_runs(dy, runs, recipe, wide, one, block);
    const RowMatrix dy_columns = quantized_runs(dy, runs, recipe, wide, block, one);
    RowMatrix y(all, kOut), dx(all, kIn), dw(kExperts * kOut, kIn);
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      const std::int64_t first = expert == 0 ? 0 : 40;
      const std::int64_t rows = expert == 0 ? 40 : 136;
      const auto of = [&](const RowMatrix& matrix) { return matrix.middleRows(first, rows); };
      const auto of_expert = [&](const RowMatrix& all_w) {
        return all_w.middleRows(expert * kOut, kOut);
      };
      y.middleRows(first, rows) = of(x_rows) * of_expert(w_rows).transpose();
      y.middleRows(first, rows).rowwise() += b.row(expert);
      dx.middleRows(first, rows) = of(dy_rows) * of_expert(w_columns);
      dw.middleRows(expert * kOut, kOut) = of(dy_columns).transpose() * of(x_columns);
    }
    CHECK(matrix_of(low_forward(runtime, product, qx.rows, qw.rows, tensor_of(runtime, b),
                                DType::fp64)) == y);
    CHECK(matrix_of(low_backward_input(runtime, product, qdy.rows, qw.columns, DType::fp64)) == dx);
    const Tensor gradient = new_activation(runtime, experts.shape(), DType::fp64);
    low_backward_weight(runtime, product, qdy.columns, qx.columns, gradient);
    CHECK(matrix_of(gradient) == dw);
  }
}

TEST_CASE("columns of an expert's rows are filled up to whole blocks, whatever has data") {
  const std::vector<std::int64_t> runs = {5, 0, 32};
  for (const bool has_data : {false, true}) {
    RecordingRuntime runtime(has_data);
    const Tensor x = new_activation(runtime, {37, 64}, DType::fp64);
    const QuantizedTensor made =
        quantize(runtime, {.recipe = Recipe::mxfp8}, x, Copies::both, {.runs = runs});
    CHECK(made.rows.shape() == Shape{37, 66});
    CHECK(made.columns.shape() == Shape{64, 66});
    const QuantizedTensor of_all =
        quantize(runtime, {.recipe = Recipe::tensorwise, .needs_transposes = true}, x, Copies::both,
                 {.runs = runs});
    CHECK(of_all.columns.shape() == x.shape());
  }
}

}  // namespace shardsim::test
