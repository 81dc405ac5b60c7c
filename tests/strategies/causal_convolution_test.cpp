#include "strategies/model/causal_convolution.hpp"

#include <cmath>
#include <cstdint>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// The convolution ahead of linear attention against its definition, and its gradients.
namespace shardsim::test {
namespace {

LocalRuntime convolution_runtime;

constexpr std::int64_t kConvolvedSamples = 2;
constexpr std::int64_t kConvolvedChannels = 3;
constexpr std::int64_t kConvolvedRow =
    7;  // Columns of the tensor that channels 2, 3 and 4 stand in.

// Each output from its padded window, in the order in which PyTorch's Conv1d writes it.
Tensor convolution_written_out(const CausalConvolution& convolution, const Columns& x) {
  const std::int64_t s = convolution.seq_len;
  const std::int64_t w = convolution.weight.shape()[1];
  const Tensor y = zeros({kConvolvedSamples, s, x.count});
  for (std::int64_t row = 0; row < kConvolvedSamples * s; ++row) {
    for (std::int64_t i = 0; i < x.count; ++i) {
      double sum = convolution.bias.defined() ? convolution.bias.get(i) : 0.0;
      for (std::int64_t back = 0; back < w; ++back) {
        const bool is_ahead = row % s - back < 0;
        sum += is_ahead ? 0.0 : x.get(row - back, i) * convolution.weight.get(i * w + w - 1 - back);
      }
      y.set(row * x.count + i, sum / (1.0 + std::exp(-sum)));
    }
  }
  return y;
}

CausalConvolution random_convolution(std::int64_t s, std::int64_t w, bool has_bias) {
  CausalConvolution convolution{s, random_tensor("weight", {kConvolvedChannels, w}), {}};
  if (has_bias) convolution.bias = random_tensor("bias", {kConvolvedChannels});
  return convolution;
}

Columns convolved_columns(const Tensor& tensor) { return {tensor, 2, kConvolvedChannels}; }

}  // namespace

TEST_CASE("causal convolution is its sum over a window of the sample, behind it SiLU") {
  for (const std::int64_t w : {1, 2, 4}) {
    for (const std::int64_t s : {1, 2, 5}) {
      for (const bool has_bias : {false, true}) {
        CAPTURE(w, s, has_bias);
        const CausalConvolution convolution = random_convolution(s, w, has_bias);
        const Columns x =
            convolved_columns(random_tensor("x", {kConvolvedSamples, s, kConvolvedRow}));
        const Tensor y = causal_convolution_forward(convolution_runtime, convolution, x);
        CHECK(y.shape() == Shape{kConvolvedSamples, s, kConvolvedChannels});
        // Sums of five numbers of order one, each rounded a few times.
        CHECK(max_difference(y, convolution_written_out(convolution, x)) < 1e-14);
      }
    }
  }
}

TEST_CASE("causal convolution: gradients of input, weight and bias") {
  for (const bool has_bias : {false, true}) {
    CAPTURE(has_bias);
    const CausalConvolution convolution = random_convolution(5, 4, has_bias);
    const Tensor wide = random_tensor("x", {kConvolvedSamples, 5, kConvolvedRow});
    const Tensor dy = random_tensor("dy", {kConvolvedSamples, 5, kConvolvedChannels});
    const auto value = [&] {
      return dot(
          causal_convolution_forward(convolution_runtime, convolution, convolved_columns(wide)),
          dy);
    };
    const Tensor d_wide = random_tensor("overwritten", wide.shape());
    const Tensor before = copy_of(d_wide);
    const Tensor dweight = random_tensor("dweight", {kConvolvedChannels, 4});
    const Tensor weight_before = copy_of(dweight);
    const Tensor dbias = has_bias ? random_tensor("dbias", {kConvolvedChannels}) : Tensor();
    const Tensor bias_before = has_bias ? copy_of(dbias) : Tensor();
    causal_convolution_backward(convolution_runtime, convolution, convolved_columns(wide), dy,
                                {convolved_columns(d_wide), dweight, dbias});
    const Tensor dx = numeric_gradient(wide, value);
    for (std::int64_t i = 0; i < dx.numel(); ++i) {
      const std::int64_t column = i % kConvolvedRow;
      const bool is_inner = column >= 2 && column < 2 + kConvolvedChannels;
      // Quotients are wrong by 1e-12 / 30 times a fifth derivative; other columns stay as they are.
      CHECK(std::fabs(d_wide.get(i) - (is_inner ? dx.get(i) : before.get(i))) <
            (is_inner ? 1e-8 : 0x1p-60));
    }
    const auto with_weight = [&] { return value() + dot(convolution.weight, weight_before); };
    CHECK(max_difference(dweight, numeric_gradient(convolution.weight, with_weight)) < 1e-8);
    if (!has_bias) continue;
    const auto with_bias = [&] { return value() + dot(convolution.bias, bias_before); };
    CHECK(max_difference(dbias, numeric_gradient(convolution.bias, with_bias)) < 1e-8);
  }
}

TEST_CASE("causal convolution moves its bytes once, the same with and without data") {
  RecordingRuntime real(true);
  RecordingRuntime meta(false);
  for (RecordingRuntime* const runtime : {&real, &meta}) {
    const auto tensor = [&](const Shape& shape) {
      return runtime->allocate(MemoryCategory::params, shape, DType::bf16);
    };
    const CausalConvolution convolution{5, tensor({kConvolvedChannels, 4}),
                                        tensor({kConvolvedChannels})};
    const Columns x = convolved_columns(tensor({kConvolvedSamples, 5, kConvolvedRow}));
    const Tensor y = causal_convolution_forward(*runtime, convolution, x);
    CHECK(y.dtype() == DType::bf16);
    CHECK(runtime->activation_bytes() == 2 * 10 * kConvolvedChannels);
    causal_convolution_backward(*runtime, convolution, x, y,
                                {convolved_columns(tensor({kConvolvedSamples, 5, kConvolvedRow})),
                                 tensor({kConvolvedChannels, 4}), tensor({kConvolvedChannels})});
  }
  CHECK(real.record() == meta.record());
  REQUIRE(meta.ops().size() == 2);
  CHECK(meta.ops()[0].flops == 0);
  CHECK(meta.ops()[0].bytes == 2 * (2 * 10 * 3 + 15));
  CHECK(meta.ops()[1].bytes == 2 * (3 * 10 * 3 + 3 * 15));
}

TEST_CASE("causal convolution refuses samples that are not whole, and wrong sizes") {
  const CausalConvolution convolution = random_convolution(5, 4, true);
  const auto forward = [&](const CausalConvolution& of, const Columns& x) {
    (void)causal_convolution_forward(convolution_runtime, of, x);
  };
  const Tensor x = zeros({kConvolvedSamples, 5, kConvolvedRow});
  CHECK_NOTHROW(forward(convolution, convolved_columns(x)));
  CHECK_THROWS_AS(forward(random_convolution(3, 4, true), convolved_columns(x)), UsageError);
  CHECK_THROWS_AS(forward(convolution, all_columns(x)), UsageError);
  CHECK_THROWS_AS(forward(convolution, {x, 5, kConvolvedChannels}), UsageError);
  CHECK_THROWS_AS(forward({5, convolution.weight, zeros({4})}, convolved_columns(x)), UsageError);
}

}  // namespace shardsim::test
