#include <cmath>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/activation.hpp"
#include "strategies/model/attention.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/model/expert_rows.hpp"
#include "strategies/model/linear.hpp"
#include "strategies/model/loss.hpp"
#include "strategies/model/norm.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// The results of each layer, by hand or by the definition written out. Gradients have a test of
// their own.
using namespace shardsim;
using namespace shardsim::test;

namespace {

LocalRuntime runtime;

// Values taken by hand from definitions, to all digits of a double but the last few.
Approx about(double value) { return Approx(value).epsilon(1e-13).margin(1e-15); }

}  // namespace

TEST_CASE("linear multiplies by the transposed weight and adds the bias") {
  const Tensor x = tensor_of({2, 2}, {1, 2, 3, 4});
  const Tensor weight = tensor_of({3, 2}, {1, 0, 0, 1, 5, -1});
  const Tensor y = linear_forward(runtime, x, weight, tensor_of({3}, {10, 20, 30}));
  CHECK(max_difference(y, tensor_of({2, 3}, {11, 22, 33, 13, 24, 41})) == 0.0);
  CHECK(linear_forward(runtime, x, weight, {}).get(5) == 11.0);
}

TEST_CASE("layer norm has mean zero and variance one before its weight and bias") {
  // Mean 3, variance 4.
  const Tensor x = tensor_of({1, 2}, {1, 5});
  const NormOutput norm =
      norm_forward(runtime, x, tensor_of({2}, {2, 3}), tensor_of({2}, {10, 20}), 0.0);
  CHECK(norm.y.get(0) == about(10 - 2));
  CHECK(norm.y.get(1) == about(20 + 3));
  CHECK(norm.statistics.get(0) == 3.0);
  CHECK(norm.statistics.get(1) == 0.5);
  const NormOutput softened =
      norm_forward(runtime, x, tensor_of({2}, {1, 1}), tensor_of({2}, {0, 0}), 12.0);
  CHECK(softened.y.get(1) == about(2.0 / 4.0));  // Epsilon is added to the variance.
}

TEST_CASE("rms norm divides by the root of the mean square") {
  // Mean square 25.
  const Tensor x = tensor_of({1, 2}, {1, 7});
  CHECK(norm_forward(runtime, x, tensor_of({2}, {1, 2}), {}, 0.0).y.get(1) == about(2.8));
  CHECK(norm_forward(runtime, x, tensor_of({2}, {1, 2}), {}, 24.0).y.get(0) == about(1.0 / 7.0));
}

TEST_CASE("activations have their known values") {
  const Tensor x = tensor_of({3}, {1.0, -2.0, 0.0});
  // The tanh form, computed with 30 digits.
  const Tensor y = gelu_forward(runtime, x);
  CHECK(y.get(0) == about(0.84119199060827676));
  CHECK(y.get(1) == about(-0.04540230591222494));
  CHECK(y.get(2) == 0.0);
  const Tensor gated = swiglu_forward(runtime, x, tensor_of({3}, {3.0, 1.0, 5.0}));
  CHECK(gated.get(0) == about(3.0 / (1.0 + std::exp(-1.0))));
  CHECK(gated.get(1) == about(-2.0 / (1.0 + std::exp(2.0))));
  relu_forward(runtime, x);
  CHECK(max_difference(x, tensor_of({3}, {1, 0, 0})) == 0.0);
}

TEST_CASE("rotary turns each pair by its position times its frequency") {
  // One sample, positions 0 to 2, one head of four elements: frequencies 1 and 100^(-1/2) = 0.1.
  const Tensor x = tensor_of({1, 3, 4}, {1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1});
  rotary_forward(runtime, x, {4, 100.0});
  for (std::int64_t i = 0; i < 4; ++i) CHECK(x.get(i) == (i % 2 == 0 ? 1.0 : 0.0));
  CHECK(x.get(4) == about(std::cos(1.0)));
  CHECK(x.get(5) == about(std::sin(1.0)));
  CHECK(x.get(6) == about(std::cos(0.1)));
  CHECK(x.get(7) == about(std::sin(0.1)));
  CHECK(x.get(8) == about(-std::sin(2.0)));
  CHECK(x.get(11) == about(std::cos(0.2)));
}

TEST_CASE("rotary treats every head and every sample alike") {
  const Tensor head = random_tensor("head", {1, 3, 4});
  const Tensor all = zeros({2, 3, 8});
  for (std::int64_t i = 0; i < all.numel(); ++i) all.set(i, head.get(i / 8 % 3 * 4 + i % 4));
  rotary_forward(runtime, head, {4, 100.0});
  rotary_forward(runtime, all, {4, 100.0});
  for (std::int64_t i = 0; i < all.numel(); ++i)
    CHECK(all.get(i) == head.get(i / 8 % 3 * 4 + i % 4));
}

TEST_CASE("scores of rotated q and k depend on the distance of their positions only") {
  const Tensor q = zeros({1, 6, 4});
  const Tensor k = zeros({1, 6, 4});
  const std::vector<double> q_head = {0.3, -1.0, 0.7, 0.2};
  const std::vector<double> k_head = {1.0, 0.4, -0.6, 0.9};
  for (std::int64_t i = 0; i < q.numel(); ++i) {
    q.set(i, q_head[static_cast<std::size_t>(i % 4)]);
    k.set(i, k_head[static_cast<std::size_t>(i % 4)]);
  }
  rotary_forward(runtime, q, {4, 100.0});
  rotary_forward(runtime, k, {4, 100.0});
  const auto score = [&](std::int64_t i, std::int64_t j) {
    return dot(q.view(4 * i, {4}), k.view(4 * j, {4}));
  };
  CHECK(score(3, 1) == about(score(5, 3)));
  CHECK(score(3, 1) == about(score(2, 0)));
  CHECK(score(3, 1) != Approx(score(3, 2)).epsilon(1e-3));
}

TEST_CASE("attention is the causal softmax written out, for every way of grouping heads") {
  const std::int64_t b = 2;
  const std::int64_t s = 4;
  const std::int64_t a = 4;
  const std::int64_t d = 3;
  for (const std::int64_t g : {4, 2, 1}) {
    const Tensor q = random_tensor("q", {b, s, a * d});
    const Tensor k = random_tensor("k", {b, s, g * d});
    const Tensor v = random_tensor("v", {b, s, g * d});
    const AttentionOutput out =
        attention_forward(runtime, {b, s, a, g, d}, {{q, a * d, 0}, {k, g * d, 0}, {v, g * d, 0}});
    for (std::int64_t sample = 0; sample < b; ++sample) {
      for (std::int64_t head = 0; head < a; ++head) {
        for (std::int64_t row = 0; row < s; ++row) {
          const std::int64_t group = head * g / a;
          std::vector<double> weight;
          double sum = 0.0;
          for (std::int64_t col = 0; col <= row; ++col) {
            const Tensor q_head = q.view(((sample * s + row) * a + head) * d, {d});
            const Tensor k_head = k.view(((sample * s + col) * g + group) * d, {d});
            weight.push_back(std::exp(dot(q_head, k_head) / std::sqrt(3.0)));
            sum += weight.back();
          }
          CHECK(out.log_sum_exp.get((sample * a + head) * s + row) == about(std::log(sum)));
          for (std::int64_t i = 0; i < d; ++i) {
            double expected = 0.0;
            for (std::int64_t col = 0; col <= row; ++col) {
              expected += weight[static_cast<std::size_t>(col)] / sum *
                          v.get(((sample * s + col) * g + group) * d + i);
            }
            CHECK(out.y.get(((sample * s + row) * a + head) * d + i) == about(expected));
          }
        }
      }
    }
  }
}

TEST_CASE("attention survives scores whose exponential overflows") {
  const Tensor q = tensor_of({1, 2, 2}, {0, 0, 1000, 0});
  const Tensor k = tensor_of({1, 2, 2}, {1000, 0, -1000, 0});
  const AttentionOutput out =
      attention_forward(runtime, {1, 2, 1, 1, 2}, {{q, 2, 0}, {k, 2, 0}, {k, 2, 0}});
  CHECK(out.y.get(2) == 1000.0);
}

TEST_CASE("cross entropy sums minus the log of the target's probability over rows that count") {
  const Tensor logits = tensor_of({3, 2}, {0, std::log(3.0), 5, 5, 1000, 0});
  const Tensor targets = tensor_of({3}, {1, -1, 0}, DType::int32);
  const CrossEntropyOutput out = cross_entropy_forward(runtime, logits, targets);
  CHECK(out.loss.get(0) == about(std::log(4.0 / 3.0)));
  CHECK(out.loss.dtype() == DType::fp64);
  CHECK(out.log_sum_exp.get(1) == about(5.0 + std::log(2.0)));  // Statistics of all rows alike.
}

TEST_CASE("statistics are kept in fp32 under 16 bits, and every result is rounded once") {
  const Tensor x = random_tensor("x", {2, 3, 8}, DType::bf16);
  const Tensor weight = random_tensor("weight", {8}, DType::bf16);
  const NormOutput norm = norm_forward(runtime, x, weight, {}, 1e-5);
  CHECK(norm.statistics.dtype() == DType::fp32);
  CHECK(norm.y.dtype() == DType::bf16);
  // The same values in fp64, rounded at the end: not one element differs.
  const Tensor wide_x = tensor_of({2, 3, 8}, values_of(x));
  const Tensor wide = norm_forward(runtime, wide_x, tensor_of({8}, values_of(weight)), {}, 1e-5).y;
  CHECK(max_difference(tensor_of({2, 3, 8}, values_of(wide), DType::bf16), norm.y) == 0.0);
}

TEST_CASE("a product counts 2 m n k, attention half of its square, the rest only bytes") {
  RecordingRuntime meta(false);
  const auto tensor = [&](const Shape& shape) {
    return meta.allocate(MemoryCategory::activations, shape, DType::bf16);
  };
  const auto last = [&] { return meta.ops().back(); };
  const Tensor x = tensor({2, 16, 8});
  const Tensor weight = tensor({24, 8});
  const Tensor y = linear_forward(meta, x, weight, tensor({24}));
  CHECK(last().kind == ComputeKind::matmul);
  CHECK(last().dtype == DType::bf16);
  CHECK(last().flops == 2 * 32 * 24 * 8);
  CHECK(last().bytes == 2 * (32 * 8 + 24 * 8 + 24 + 32 * 24));
  CHECK(last().shape == KernelShape{KernelFamily::matrix_product, 32, 24, 8});
  linear_backward_weight(meta, y, x, weight);
  CHECK(last().flops == 2 * 32 * 24 * 8);
  CHECK(last().bytes == 2 * (32 * 8 + 32 * 24 + 2 * 24 * 8));
  CHECK(last().shape == KernelShape{KernelFamily::weight_gradient, 24, 8, 32});
  (void)linear_backward_input(meta, y, weight);
  CHECK(last().flops == 2 * 32 * 24 * 8);
  CHECK(last().bytes == 2 * (32 * 24 + 24 * 8 + 32 * 8));
  CHECK(last().shape == KernelShape{KernelFamily::matrix_product, 32, 8, 24});

  // b 2, s 16, a 2, g 1, d 4.
  const Tensor k = tensor({2, 16, 4});
  const AttentionShape shape{2, 16, 2, 1, 4};
  const AttentionOutput out = attention_forward(meta, shape, {{x, 8, 0}, {k, 4, 0}, {k, 4, 0}});
  CHECK(last().flops == 2 * (2 * 2 * 2 * 16 * 16 * 4) / 2);
  CHECK(last().bytes == 2 * (2 * 32 * 8 + 2 * 32 * 4) + 4 * 2 * 2 * 16);
  CHECK(last().shape == KernelShape{KernelFamily::attention_forward, 16, 16, 4, 4});
  attention_backward(meta, shape, {{x, 8, 0}, {k, 4, 0}, {k, 4, 0}}, out, x,
                     {{x, 8, 0}, {k, 4, 0}, {k, 4, 0}});
  CHECK(last().flops == 5 * (2 * 2 * 2 * 16 * 16 * 4) / 2);
  CHECK(last().bytes == 2 * (4 * 32 * 8 + 4 * 32 * 4) + 4 * 2 * 2 * 16);
  CHECK(last().shape == KernelShape{KernelFamily::attention_backward, 16, 16, 4, 4});

  (void)gelu_forward(meta, y);
  CHECK(last().kind == ComputeKind::memory_bound);
  CHECK(last().flops == 0);
  CHECK(last().bytes == 2 * 2 * 32 * 24);
  CHECK(last().shape == KernelShape{KernelFamily::activation});
}

TEST_CASE("grouped products are of the mean number of rows, rounded up, one for each expert") {
  RecordingRuntime meta(false);
  const auto tensor = [&](const Shape& shape) {
    return meta.allocate(MemoryCategory::activations, shape, DType::bf16);
  };
  const auto last = [&] { return meta.ops().back(); };
  const Tensor x = tensor({10, 8});
  const Tensor weight = tensor({4, 24, 8});
  const Tensor sizes = meta.allocate(MemoryCategory::activations, {4}, DType::int32);
  const Tensor y = grouped_forward(meta, x, weight, {}, sizes);
  CHECK(last().shape == KernelShape{KernelFamily::matrix_product, 3, 24, 8, 4});
  CHECK(last().flops == 2 * 10 * 24 * 8);  // For the rows that there are.
  grouped_backward_weight(meta, y, x, sizes, weight);
  CHECK(last().shape == KernelShape{KernelFamily::weight_gradient, 24, 8, 3, 4});
  (void)grouped_backward_input(meta, y, weight, sizes);
  CHECK(last().shape == KernelShape{KernelFamily::matrix_product, 3, 8, 24, 4});
  const std::vector<std::int64_t> counts = {3, 2, 3, 2};
  (void)regroup_rows(meta, x, counts, 1, true);
  CHECK(last().shape.family == KernelFamily::permutation);
}

TEST_CASE("sizes that do not fit, and tokens outside the vocabulary, are refused") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(linear_forward(runtime, x, zeros({4, 5}), {}), UsageError);
  CHECK_THROWS_AS(norm_forward(runtime, x, zeros({4}), {}, 1e-5), UsageError);
  CHECK_THROWS_AS(add_in_place(runtime, x, zeros({7})), UsageError);
  const Tensor tokens = tensor_of({1, 2}, {0, 5}, DType::int32);
  CHECK_THROWS_AS(token_embedding_forward(runtime, tokens, zeros({5, 3}), {0, 5, 5}), UsageError);
  CHECK_THROWS_AS(cross_entropy_forward(runtime, zeros({1, 2, 5}), tokens), UsageError);
}
