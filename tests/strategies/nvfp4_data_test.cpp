#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/element_chance.hpp"
#include "strategies/model/hadamard.hpp"
#include "strategies/model/low_products.hpp"
#include "strategies/model/quantized_data.hpp"
#include "strategies/model/quantized_weights.hpp"

#include "tests/strategies/quantized_definition.hpp"
#include "tests/strategies/recording_runtime.hpp"

// NVFP4 with data, against its definition: two levels of scales, the transform of columns, tiles of
// weights, and gradients that are rounded by chance.
namespace shardsim::test {
namespace {

constexpr LowPrecision kLow{.recipe = ScalingRecipe::nvfp4};
constexpr std::int64_t kBlock = 16;

QuantizedForm form_of(bool is_weight, CopyDirection direction) {
  return {row_of(ScalingRecipe::nvfp4), kE2m1, is_weight, direction};
}

RowMatrix decoded(const Tensor& bytes, bool is_weight, CopyDirection direction, std::int64_t rows,
                  std::int64_t width) {
  return decode(bytes, form_of(is_weight, direction), rows, width);
}

// A block whose elements share a scale in e4m3, in a tensor with this largest element.
RowMatrix quantized_block(const RowMatrix& block, double largest) {
  const std::vector<double> numbers = numbers_of(kE2m1);
  const auto of_all = static_cast<float>(6.0 * 448.0) / static_cast<float>(largest);
  const auto most = static_cast<float>(block.cwiseAbs().maxCoeff());
  const double scale = nearest_number(static_cast<double>(most / 6.0F * of_all), numbers_of(kE4m3));
  const auto factor = static_cast<double>(of_all / static_cast<float>(scale));
  return block.unaryExpr([&](double value) {
    if (scale == 0.0) return 0.0;
    return nearest_number(value * factor, numbers) * scale * static_cast<double>(1.0F / of_all);
  });
}

RowMatrix quantized(const RowMatrix& x, std::int64_t block_rows, std::int64_t block_width) {
  const double largest = x.cwiseAbs().maxCoeff();
  RowMatrix result(x.rows(), x.cols());
  for (std::int64_t i = 0; i < x.rows(); i += block_rows) {
    for (std::int64_t j = 0; j < x.cols(); j += block_width) {
      result.block(i, j, block_rows, block_width) =
          quantized_block(x.block(i, j, block_rows, block_width), largest);
    }
  }
  return result;
}

// The transform as it is defined: signs, then the sums and differences of Sylvester's matrix.
RowMatrix transformed(const RowMatrix& x) {
  constexpr std::array kSigns = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};
  RowMatrix result = x;
  for (std::int64_t i = 0; i < x.rows(); ++i) result.row(i) *= kSigns.at(to_size(i % kBlock));
  for (std::int64_t half = 1; half < kBlock; half *= 2) {
    const RowMatrix before = result;
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      const std::int64_t partner = i ^ half;
      const bool is_lower = (i & half) == 0;
      result.row(i) = is_lower ? RowMatrix(before.row(i) + before.row(partner))
                               : RowMatrix(before.row(partner) - before.row(i));
    }
  }
  return result / 4.0;
}

QuantizedTensor gradient_of(Runtime& runtime, const RowMatrix& dy, const ElementPlaces& places,
                            Copies copies = Copies::both) {
  return quantize(runtime, kLow, tensor_of(runtime, dy), copies,
                  {.operand = Operand::gradient, .places = &places});
}

}  // namespace

TEST_CASE("the transform is its own definition, and products do not see it") {
  const RowMatrix x = whole_numbers(48, 7, 1);
  const RowMatrix dy = whole_numbers(48, 5, 2);
  CHECK(hadamard_transformed(x) == transformed(x));
  // Quarters of whole numbers: all is exact.
  CHECK(hadamard_transformed(dy).transpose() * hadamard_transformed(x) == dy.transpose() * x);
  CHECK(hadamard_transformed(x) != x);
}

TEST_CASE("K2: values have two levels of scales, and columns are transformed first") {
  RecordingRuntime runtime(true);
  const RowMatrix x = numbers(64, 96);
  const QuantizedTensor made = quantize(runtime, kLow, tensor_of(runtime, x), Copies::both);
  CHECK(made.rows.num_bytes() == 64 * (96 / 2 + 96 / 16));
  CHECK(decoded(made.rows, false, CopyDirection::rows, 64, 96) == quantized(x, 1, kBlock));
  CHECK(decoded(made.columns, false, CopyDirection::columns, 64, 96) ==
        quantized(transformed(x), kBlock, 1));
}

TEST_CASE("K2: a weight's tiles have one scale, so that its copies are transposes") {
  RecordingRuntime runtime(true);
  const RowMatrix w = numbers(64, 96);
  const QuantizedTensor made = quantize_weight(runtime, kLow, tensor_of(runtime, w), Copies::both);
  const RowMatrix expected = quantized(w, kBlock, kBlock);
  CHECK(decoded(made.rows, true, CopyDirection::rows, 64, 96) == expected);
  CHECK(decoded(made.columns, true, CopyDirection::columns, 64, 96) == expected);
}

TEST_CASE("K2: experts have scales of their own, and their rows are filled up") {
  RecordingRuntime runtime(true);
  const std::vector<std::int64_t> runs = {20, 0, 16};
  RowMatrix x = numbers(36, 32);
  x(3, 3) = 1e3;
  const QuantizedTensor made =
      quantize(runtime, kLow, tensor_of(runtime, x), Copies::both, {.runs = runs});
  RowMatrix rows(36, 32);
  rows.topRows(20) = quantized(x.topRows(20), 1, kBlock);
  rows.bottomRows(16) = quantized(x.bottomRows(16), 1, kBlock);
  CHECK(decoded(made.rows, false, CopyDirection::rows, 36, 32) == rows);
  RowMatrix filled = RowMatrix::Zero(32, 32);
  filled.topRows(20) = x.topRows(20);
  RowMatrix columns(48, 32);
  columns.topRows(32) = quantized(transformed(filled), kBlock, 1);
  columns.bottomRows(16) = quantized(transformed(x.bottomRows(16)), kBlock, 1);
  CHECK(decoded(made.columns, false, CopyDirection::columns, 36, 32) == columns);
}

TEST_CASE("gradients are rounded to a neighbour, and right on the mean") {
  constexpr int kDraws = 400;
  RecordingRuntime runtime(true);
  // The largest element of each block is that of all, so that scales are exact and none saturates.
  RowMatrix dy = numbers(16, 16).unaryExpr([](double value) { return std::sin(value); });
  for (std::int64_t i = 0; i < 16; ++i) dy(i, i) = 2.0;
  RowMatrix sum = RowMatrix::Zero(16, 16);
  RowMatrix least = RowMatrix::Constant(16, 16, 1e9);
  RowMatrix most = -least;
  for (int draw = 0; draw < kDraws; ++draw) {
    const ElementPlaces places{.seed = static_cast<std::uint64_t>(draw), .layer = 3, .seq_len = 16};
    const QuantizedTensor made = gradient_of(runtime, dy, places);
    const RowMatrix one = decoded(made.rows, false, CopyDirection::rows, 16, 16);
    sum += one;
    least = least.cwiseMin(one);
    most = most.cwiseMax(one);
  }
  for (std::int64_t i = 0; i < 16; ++i) {
    for (std::int64_t j = 0; j < 16; ++j) {
      const double size = std::fabs(dy(i, j)) * 3.0;  // In units of the code 1.
      const double step = (size < 2.0 ? 0.5 : size < 4.0 ? 1.0 : 2.0) / 3.0;
      CAPTURE(i, j, dy(i, j), least(i, j), most(i, j));
      CHECK(most(i, j) - least(i, j) <= step * (1.0 + 1e-6));  // Scales are in fp32.
      // The mean of so many draws is off by 5 standard deviations once in millions.
      CHECK(std::fabs(sum(i, j) / kDraws - dy(i, j)) <=
            5.0 * 0.5 * step / std::sqrt(kDraws) + 1e-6 * std::fabs(dy(i, j)));
    }
  }
  CHECK((most - least).maxCoeff() > 0.0);
}

TEST_CASE("what is drawn belongs to an element, not to the rank that has it") {
  RecordingRuntime runtime(true);
  RowMatrix dy = numbers(64, 64);
  dy(0, 0) = dy(0, 40) = dy(40, 0) = dy(40, 40) = 1e4;  // All parts have the same largest element.
  const ElementPlaces places{.seed = 5, .layer = 2, .first_sample = 8, .seq_len = 32};
  const QuantizedTensor whole = gradient_of(runtime, dy, places, Copies::rows);
  const RowMatrix all = decoded(whole.rows, false, CopyDirection::rows, 64, 64);
  const auto part = [&](std::int64_t row, std::int64_t column, ElementPlaces own) {
    const QuantizedTensor made =
        gradient_of(runtime, dy.block(row, column, 32, 32), own, Copies::rows);
    return decoded(made.rows, false, CopyDirection::rows, 32, 32);
  };
  ElementPlaces own = places;
  own.first_column = 32;
  CHECK(part(0, 32, own) == all.block(0, 32, 32, 32));
  own.first_token = 32;  // The second sample, as a share of the tokens,
  CHECK(part(32, 32, own) == all.block(32, 32, 32, 32));
  own.first_token = 0;
  own.first_sample = 9;  // and as a microbatch of its own.
  CHECK(part(32, 32, own) == all.block(32, 32, 32, 32));
  own.layer = 3;
  CHECK(part(32, 32, own) != all.block(32, 32, 32, 32));
}

TEST_CASE("K3: products in 4 bits equal those of the rounded matrices") {
  RecordingRuntime runtime(true);
  const RowMatrix x = numbers(48, 64, 1);
  const RowMatrix dy = numbers(48, 32, 2);
  const RowMatrix w = numbers(32, 64, 3);
  const ElementPlaces places{.seed = 1, .layer = 0, .seq_len = 48};
  const QuantizedTensor qx = quantize(runtime, kLow, tensor_of(runtime, x), Copies::both);
  const QuantizedTensor qdy = gradient_of(runtime, dy, places);
  const Tensor weight = tensor_of(runtime, w);
  const QuantizedTensor qw = quantize_weight(runtime, kLow, weight, Copies::both);
  const LowProduct product = product_of(kLow, weight);
  const RowMatrix w_low = quantized(w, kBlock, kBlock);
  const RowMatrix dy_rows = decoded(qdy.rows, false, CopyDirection::rows, 48, 32);
  const RowMatrix dy_columns = decoded(qdy.columns, false, CopyDirection::columns, 48, 32);
  CHECK(matrix_of(low_forward(runtime, product, qx.rows, qw.rows, {}, DType::fp64)) ==
        quantized(x, 1, kBlock) * w_low.transpose());
  CHECK(matrix_of(low_backward_input(runtime, product, qdy.rows, qw.columns, DType::fp64)) ==
        dy_rows * w_low);
  const Tensor dw = new_activation(runtime, {32, 64}, DType::fp64);
  low_backward_weight(runtime, product, qdy.columns, qx.columns, dw);
  CHECK(matrix_of(dw) == dy_columns.transpose() * quantized(transformed(x), kBlock, 1));
  // Nothing has been lost but by rounding: 4 bits are off by a sixth of a block's largest.
  const RowMatrix exact = dy.transpose() * x;
  CHECK((matrix_of(dw) - exact).norm() < 0.25 * exact.norm());
}

TEST_CASE("a gradient whose places are unknown is refused, and so is a part of a block") {
  RecordingRuntime runtime(true);
  const Tensor dy = new_activation(runtime, {16, 16}, DType::fp64);
  const auto code_of = [&](const auto& call) {
    try {
      call();
    } catch (const UsageError& error) {
      return std::string(error.code());
    }
    return std::string();
  };
  CHECK(code_of([&] {
          (void)quantize(runtime, kLow, dy, Copies::both, {.operand = Operand::gradient});
        }) == "E0680");
  CHECK(
      code_of([&] {
        (void)quantize(runtime, kLow, new_activation(runtime, {24, 16}, DType::fp64), Copies::both);
      }) == "E0681");
}

}  // namespace shardsim::test
