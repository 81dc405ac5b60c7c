#include <catch2/catch.hpp>

#include "strategies/model/activation.hpp"
#include "strategies/model/attention.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/model/linear.hpp"
#include "strategies/model/loss.hpp"
#include "strategies/model/norm.hpp"

#include "tests/strategies/layer_fixture.hpp"

// Each layer's backward against difference quotients of its forward. The scalar to differentiate is
// the product of the layer's output with a fixed random tensor `dy`, so that no two errors cancel.
using namespace shardsim;
using namespace shardsim::test;

namespace {

// Quotients with step 1e-3 are wrong by 1e-12 / 30 times a fifth derivative, which is at most some
// thousands for values of order one; a wrong term shows as 1e-2.
constexpr double kLayerGradientBound = 1e-8;

LocalRuntime gradient_runtime;

#define CHECK_GRADIENT(gradient, variable, function) \
  CHECK(max_difference(gradient, numeric_gradient(variable, function)) < kLayerGradientBound)

}  // namespace

TEST_CASE("linear: gradients of input, weight and bias") {
  const Tensor x = random_tensor("x", {2, 3, 4});
  const Tensor weight = random_tensor("weight", {5, 4});
  const Tensor bias = random_tensor("bias", {5});
  const Tensor dy = random_tensor("dy", {2, 3, 5});
  const auto value = [&] { return dot(linear_forward(gradient_runtime, x, weight, bias), dy); };
  const Tensor dweight = zeros({5, 4});
  const Tensor dbias = zeros({5});
  linear_backward_weight(gradient_runtime, dy, x, dweight);
  linear_backward_bias(gradient_runtime, dy, dbias);
  CHECK_GRADIENT(dweight, weight, value);
  CHECK_GRADIENT(dbias, bias, value);
  const Tensor dx = linear_backward_input(gradient_runtime, dy, weight);
  CHECK(dx.shape() == x.shape());
  CHECK_GRADIENT(dx, x, value);
  // Added, not written: twice gives twice.
  (void)linear_backward_input(gradient_runtime, dy, weight, dx);
  const auto twice = [&] { return 2.0 * value(); };
  CHECK_GRADIENT(dx, x, twice);
  linear_backward_weight(gradient_runtime, dy, x, dweight);
  linear_backward_bias(gradient_runtime, dy, dbias);
  CHECK_GRADIENT(dweight, weight, twice);
  CHECK_GRADIENT(dbias, bias, twice);
}

TEST_CASE("layer norm: gradients of input, weight and bias") {
  const Tensor x = random_tensor("x", {2, 3, 6});
  const Tensor weight = random_tensor("weight", {6});
  const Tensor bias = random_tensor("bias", {6});
  const Tensor dy = random_tensor("dy", {2, 3, 6});
  const auto forward = [&] { return norm_forward(gradient_runtime, x, weight, bias, 1e-5); };
  const auto value = [&] { return dot(forward().y, dy); };
  const Tensor dweight = random_tensor("dweight", {6});  // Gradients are added to what is there.
  const Tensor dbias = random_tensor("dbias", {6});
  const Tensor before_weight = copy_of(dweight);
  const Tensor before_bias = copy_of(dbias);
  const Tensor dx =
      norm_backward(gradient_runtime, dy, x, weight, forward().statistics, dweight, dbias);
  CHECK_GRADIENT(dx, x, value);
  const auto with_before = [&] {
    return value() + dot(weight, before_weight) + dot(bias, before_bias);
  };
  CHECK_GRADIENT(dweight, weight, with_before);
  CHECK_GRADIENT(dbias, bias, with_before);
}

TEST_CASE("rms norm: gradients of input and weight") {
  const Tensor x = random_tensor("x", {2, 3, 6});
  const Tensor weight = random_tensor("weight", {6});
  const Tensor dy = random_tensor("dy", {2, 3, 6});
  const auto forward = [&] { return norm_forward(gradient_runtime, x, weight, {}, 1e-5); };
  const auto value = [&] { return dot(forward().y, dy); };
  const Tensor dweight = random_tensor("dweight", {6});
  const Tensor before = copy_of(dweight);
  const Tensor dx =
      norm_backward(gradient_runtime, dy, x, weight, forward().statistics, dweight, {});
  CHECK_GRADIENT(dx, x, value);
  const auto with_before = [&] { return value() + dot(weight, before); };
  CHECK_GRADIENT(dweight, weight, with_before);
}

TEST_CASE("relu: gradient of the input") {
  const Tensor x = random_tensor("x", {3, 7});  // No element within the quotient's step of zero.
  const Tensor dy = random_tensor("dy", {3, 7});
  const auto forward = [&] {
    const Tensor y = copy_of(x);
    relu_forward(gradient_runtime, y);
    return y;
  };
  const auto value = [&] { return dot(forward(), dy); };
  const Tensor dx = copy_of(dy);
  relu_backward(gradient_runtime, forward(), dx);
  CHECK_GRADIENT(dx, x, value);
}

TEST_CASE("gelu: gradient of the input") {
  const Tensor x = random_tensor("x", {3, 7});
  const Tensor dy = random_tensor("dy", {3, 7});
  const auto value = [&] { return dot(gelu_forward(gradient_runtime, x), dy); };
  const Tensor dx = copy_of(dy);
  gelu_backward(gradient_runtime, x, dx);
  CHECK_GRADIENT(dx, x, value);
}

TEST_CASE("swiglu: gradients of gate and up") {
  const Tensor gate = random_tensor("gate", {3, 7});
  const Tensor up = random_tensor("up", {3, 7});
  const Tensor dy = random_tensor("dy", {3, 7});
  const auto value = [&] { return dot(swiglu_forward(gradient_runtime, gate, up), dy); };
  const Tensor dup = copy_of(dy);
  const Tensor dgate = swiglu_backward(gradient_runtime, gate, up, dup);
  CHECK_GRADIENT(dgate, gate, value);
  CHECK_GRADIENT(dup, up, value);
}

TEST_CASE("rotary embedding: gradient of the input") {
  const Tensor x = random_tensor("x", {2, 5, 8});
  const Tensor dy = random_tensor("dy", {2, 5, 8});
  const auto value = [&] {
    const Tensor y = copy_of(x);
    rotary_forward(gradient_runtime, y, {4, 100.0});
    return dot(y, dy);
  };
  const Tensor dx = copy_of(dy);
  rotary_backward(gradient_runtime, dx, {4, 100.0});
  CHECK_GRADIENT(dx, x, value);
}

TEST_CASE("attention: gradients of q, k and v, grouped or not, in tensors of their own or one") {
  for (const std::int64_t groups : {4, 2, 1}) {
    const AttentionShape shape{2, 5, 4, groups, 3};
    const std::int64_t width = (4 + 2 * groups) * 3;
    const Tensor fused = random_tensor("qkv", {2, 5, width});
    const Tensor dy = random_tensor("dy", {2, 5, 12});
    const auto heads = [&](const Tensor& t) {
      return QkvHeads{{t, width, 0}, {t, width, 12}, {t, width, 12 + groups * 3}};
    };
    const auto forward = [&] { return attention_forward(gradient_runtime, shape, heads(fused)); };
    const auto value = [&] { return dot(forward().y, dy); };
    const Tensor dfused = random_tensor("overwritten", {2, 5, width});
    attention_backward(gradient_runtime, shape, heads(fused), forward(), dy, heads(dfused));
    CAPTURE(groups);
    CHECK_GRADIENT(dfused, fused, value);
  }
}

TEST_CASE("token embedding: the gradient of a row is the sum over its tokens") {
  const Tensor tokens = tensor_of({2, 3}, {4, 0, 4, 4, 2, 0}, DType::int32);
  const Tensor weight = random_tensor("weight", {5, 3});
  const Tensor dy = random_tensor("dy", {2, 3, 3});
  const auto value = [&] {
    return dot(token_embedding_forward(gradient_runtime, tokens, weight, {0, 5, 5}), dy);
  };
  const Tensor dweight = random_tensor("dweight", {5, 3});
  const Tensor before = copy_of(dweight);
  token_embedding_backward(gradient_runtime, tokens, dy, dweight, {0, 5, 5});
  const auto with_before = [&] { return value() + dot(weight, before); };
  CHECK_GRADIENT(dweight, weight, with_before);
}

TEST_CASE("position embedding: gradient of the rows used, none of the others") {
  const Tensor weight = random_tensor("weight", {6, 3});
  const Tensor x = random_tensor("x", {2, 4, 3});
  const Tensor dy = random_tensor("dy", {2, 4, 3});
  const auto value = [&] {
    const Tensor y = copy_of(x);
    position_embedding_forward(gradient_runtime, weight, y, {4, 0});
    return dot(y, dy);
  };
  const Tensor dweight = zeros({6, 3});
  position_embedding_backward(gradient_runtime, dy, dweight, {4, 0});
  CHECK_GRADIENT(dweight, weight, value);
  CHECK_GRADIENT(dy, x, value);  // The stream passes through.
}

TEST_CASE("cross entropy: gradient of the logits, ignored rows and scale included") {
  const Tensor logits = random_tensor("logits", {2, 3, 5});
  const Tensor targets = tensor_of({2, 3}, {4, -1, 0, 2, 2, -1}, DType::int32);
  const double scale = 0.37;
  const auto forward = [&] { return cross_entropy_forward(gradient_runtime, logits, targets); };
  const auto value = [&] { return scale * forward().loss.get(0); };
  const Tensor dlogits = copy_of(logits);
  cross_entropy_backward(gradient_runtime, dlogits, targets, forward().log_sum_exp, scale,
                         {0, 5, 5});
  CHECK_GRADIENT(dlogits, logits, value);
}

TEST_CASE("squared error: gradient of the output, mask and scale included") {
  const Tensor y = random_tensor("y", {3, 4});
  const Tensor targets = random_tensor("targets", {3, 4});
  const Tensor mask = tensor_of({3}, {1, 0, 1}, DType::fp32);
  const double scale = 0.37;
  const auto value = [&] {
    return scale * squared_error_forward(gradient_runtime, y, targets, mask).get(0);
  };
  const Tensor dy = copy_of(y);
  squared_error_backward(gradient_runtime, dy, targets, mask, scale);
  CHECK_GRADIENT(dy, y, value);
}

TEST_CASE("a residual joins by adding in place, and is its own gradient") {
  const Tensor x = random_tensor("x", {2, 3});
  const Tensor y = random_tensor("y", {2, 3});
  const Tensor before = copy_of(y);
  add_in_place(gradient_runtime, x, y);
  for (std::int64_t i = 0; i < y.numel(); ++i) CHECK(y.get(i) == before.get(i) + x.get(i));
}

#undef CHECK_GRADIENT
