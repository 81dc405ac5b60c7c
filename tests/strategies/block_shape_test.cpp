#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/norm.hpp"

#include "tests/strategies/block_shapes.hpp"
#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Activations of feed-forwards, forms of norms, and what blocks of other shapes keep and compute.
namespace shardsim::test {
namespace {

LocalRuntime shape_runtime;

// See model_layer_gradient_test.cpp.
constexpr double kShapeGradientBound = 1e-8;
constexpr std::int64_t kShapeSamples = 3;

Approx near(double value) { return Approx(value).epsilon(1e-14).margin(0.0); }

ModelOptions shaped_model(const char* name) {
  return with_block_shape({.family = "llama",
                           .num_layers = 3,
                           .hidden_size = 256,
                           .ffn_hidden_size = 704,
                           .num_attention_heads = 8,
                           .num_query_groups = 2,
                           .vocab_size = 1000,
                           .seq_len = 96,
                           .dtype = DType::bf16},
                          name);
}

struct ShapedRun {
  explicit ShapedRun(const ModelOptions& options)
      : model(make_model(options)),
        parameters(*model, runtime, 0, options.dtype, options.dtype),
        batch(model->make_batch(runtime, 0, 0, kShapeSamples, 0.0)),
        saved(static_cast<std::size_t>(model->num_modules())) {}

  // Bytes that a block's forward leaves behind, what it returns included.
  std::int64_t kept_by_block() {
    Tensor x = model->forward(0, {runtime, parameters}, {}, batch, saved[0]);
    const std::int64_t before = runtime.activation_bytes();
    const Tensor y = model->forward(1, {runtime, parameters}, x, batch, saved[1]);
    return runtime.activation_bytes() - before;
  }

  RecordingRuntime runtime{false};
  std::unique_ptr<Model> model;
  WholeParameters parameters;
  Batch batch;
  std::vector<Saved> saved;
};

}  // namespace

TEST_CASE("activations of feed-forwards have the values of their families") {
  const Tensor gate = tensor_of({4}, {1.0, -2.0, 9.0, -9.0});
  const Tensor up = tensor_of({4}, {3.0, 0.5, -8.0, 8.0});
  const Tensor gemma = activation_forward(shape_runtime, {Activation::geglu_tanh}, gate, up);
  CHECK(gemma.get(0) == near(3.0 * 0.84119199060827676));  // gelu(1) and gelu(-2) with 30 digits.
  CHECK(gemma.get(1) == near(0.5 * -0.04540230591222494));
  // GptOssExperts: both are clipped at 7, but a gate below -7 stays.
  const Tensor oss = activation_forward(shape_runtime, {Activation::clamped_swiglu}, gate, up);
  CHECK(oss.get(0) == near(4.0 / (1.0 + std::exp(-1.702))));
  CHECK(oss.get(1) == near(1.5 * -2.0 / (1.0 + std::exp(2.0 * 1.702))));
  CHECK(oss.get(2) == near(-6.0 * 7.0 / (1.0 + std::exp(-7.0 * 1.702))));
  CHECK(oss.get(3) == near(8.0 * -9.0 / (1.0 + std::exp(9.0 * 1.702))));
  const Tensor squared = activation_forward(shape_runtime, {Activation::squared_relu}, {}, gate);
  CHECK(max_difference(squared, tensor_of({4}, {1, 0, 81, 0})) == 0.0);
}

TEST_CASE("every activation's gradients are central differences of its values") {
  for (const Activation kind : {Activation::gelu_tanh, Activation::squared_relu, Activation::swiglu,
                                Activation::geglu_tanh, Activation::clamped_swiglu}) {
    // Half of a bell's values are beyond 0.7, none within a step of it.
    const ActivationForm form{.kind = kind, .limit = 0.7};
    const Tensor gate = form.is_gated() ? random_tensor("gate", {3, 7}) : Tensor();
    const Tensor up = random_tensor("up", {3, 7});
    const Tensor dy = random_tensor("dy", {3, 7});
    const auto value = [&] { return dot(activation_forward(shape_runtime, form, gate, up), dy); };
    const Tensor d_up = copy_of(dy);
    const Tensor d_gate = activation_backward(shape_runtime, form, gate, up, d_up);
    CAPTURE(static_cast<int>(kind));
    CHECK(max_difference(d_up, numeric_gradient(up, value)) < kShapeGradientBound);
    REQUIRE(d_gate.defined() == form.is_gated());
    if (!form.is_gated()) continue;
    CHECK(max_difference(d_gate, numeric_gradient(gate, value)) < kShapeGradientBound);
  }
}

TEST_CASE("nothing flows back through what a clamped SwiGLU clips, all through what it does not") {
  const ActivationForm form{.kind = Activation::clamped_swiglu, .limit = 7.0};
  // Above, at and below either limit.
  const Tensor gate = tensor_of({6}, {7.5, 7.0, 6.5, -7.5, 1.0, 1.0});
  const Tensor up = tensor_of({6}, {1.0, 7.0, 7.5, 1.0, -7.5, -7.0});
  const Tensor d_up = tensor_of({6}, {1, 1, 1, 1, 1, 1});
  const Tensor d_gate = activation_backward(shape_runtime, form, gate, up, d_up);
  for (std::int64_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK((d_gate.get(i) == 0.0) == (i == 0));
    CHECK((d_up.get(i) == 0.0) == (i == 2 || i == 4));
  }
}

TEST_CASE("a weight that is centred on 0 norms as one that is 1 more, with the same gradient") {
  const Tensor x = random_tensor("x", {2, 3, 6});
  const Tensor dy = random_tensor("dy", {2, 3, 6});
  const Tensor weight = random_tensor("weight", {6});
  const Tensor more = copy_of(weight);
  for (std::int64_t i = 0; i < more.numel(); ++i) more.set(i, weight.get(i) + 1.0);
  for (const bool is_layer : {false, true}) {
    for (const bool has_bias : {false, is_layer}) {
      const Tensor bias = has_bias ? random_tensor("bias", {6}) : Tensor();
      const NormForm plain{.is_layer = is_layer, .has_bias = has_bias};
      const NormForm centred{is_layer, has_bias, true};
      const NormOutput expected = norm_forward(shape_runtime, x, more, bias, 1e-5, plain);
      const NormOutput actual = norm_forward(shape_runtime, x, weight, bias, 1e-5, centred);
      CHECK(max_difference(actual.y, expected.y) == 0.0);
      const auto backward = [&](const Tensor& w, const NormForm& form, const Tensor& dw) {
        const Tensor db = has_bias ? zeros({6}) : Tensor();
        return norm_backward(shape_runtime, dy, x, w, expected.statistics, dw, db, form);
      };
      const Tensor dw = zeros({6});
      const Tensor dw_plain = zeros({6});
      CHECK(max_difference(backward(weight, centred, dw), backward(more, plain, dw_plain)) == 0.0);
      CHECK(max_difference(dw, dw_plain) == 0.0);
    }
  }
}

TEST_CASE("layer norm without a bias: gradients of input and weight, and a mean of 0") {
  const NormForm form{.is_layer = true};
  const Tensor x = random_tensor("x", {2, 3, 6});
  const Tensor weight = random_tensor("weight", {6});
  const Tensor dy = random_tensor("dy", {2, 3, 6});
  const auto forward = [&] { return norm_forward(shape_runtime, x, weight, {}, 1e-5, form); };
  const auto value = [&] { return dot(forward().y, dy); };
  const Tensor dw = zeros({6});
  const Tensor dx = norm_backward(shape_runtime, dy, x, weight, forward().statistics, dw, {}, form);
  CHECK(max_difference(dx, numeric_gradient(x, value)) < kShapeGradientBound);
  CHECK(max_difference(dw, numeric_gradient(weight, value)) < kShapeGradientBound);
  double sum = 0.0;
  for (std::int64_t i = 0; i < 6; ++i) sum += forward().y.get(i) / weight.get(i);
  CHECK(std::fabs(sum) < 1e-13);
}

TEST_CASE("blocks of other shapes keep what the formula says") {
  const ModelOptions o = shaped_model("");
  const std::int64_t e = 2;
  const std::int64_t w = 4;  // A statistic.
  const std::int64_t bs = kShapeSamples * o.seq_len;
  const std::int64_t h = o.hidden_size;
  const std::int64_t f = o.ffn_hidden_size;
  const std::int64_t plain = ShapedRun(o).kept_by_block();
  const auto beside = [&](const char* name) {
    return ShapedRun(shaped_model(name)).kept_by_block() - plain;
  };
  // A norm behind each branch keeps its input, and its root. Queries and keys are normed, too.
  const std::int64_t heads = o.num_attention_heads + o.num_query_groups;
  const std::int64_t query_key_norms = e * bs * heads * o.head_size() + w * bs * heads;
  CHECK(beside("gemma") == query_key_norms + 2 * (e * bs * h + w * bs));
  // Norms of whole queries and keys have one root each. Behind the branches there are as many
  // norms as in front of the others, but the last output is the stream's.
  CHECK(beside("olmo") == e * bs * heads * o.head_size() + 2 * w * bs);
  // One norm and one stream fewer; layer norm has a mean.
  CHECK(beside("command") == -2 * e * bs * h);
  // The middle once before and once after, without a gate; two means.
  CHECK(beside("nemotron") == -e * bs * f + 2 * w * bs);
  for (const char* free : {"gpt-oss", "granite"}) CHECK(beside(free) == 0);
  CHECK(beside("gpt-j") == -2 * e * bs * h - e * bs * f);
}

TEST_CASE("the operations of a step of any shape add up to the model's flops") {
  for (const char* name : kBlockShapes) {
    const ModelOptions o = shaped_model(name);
    ShapedRun run(o);
    (void)run_forward(*run.model, run.runtime, run.parameters, run.batch, run.saved);
    run_backward(*run.model, run.runtime, run.parameters, run.batch, run.saved);
    std::int64_t flops = 0;
    for (const ComputeOp& op : run.runtime.ops()) flops += op.flops;
    const std::int64_t again = o.num_layers * kShapeSamples * o.seq_len * o.seq_len * o.hidden_size;
    CAPTURE(name);
    CHECK(flops == kShapeSamples * run.model->model_flops_per_sample() + again);
  }
}

TEST_CASE("shapes that do not fit together are refused") {
  ModelOptions options = shaped_model("");
  options.activation.kind = Activation::relu;
  CHECK(code_of_model(options) == "E0629");
  options = shaped_model("gpt-oss");
  options.activation.limit = 0.0;
  CHECK(code_of_model(options) == "E0629");
  options = shaped_model("command");
  options.norm_placement = NormPlacement::sandwich;
  CHECK(code_of_model(options) == "E0629");
  options = shaped_model("command");
  options.moe = {.num_experts = 4, .experts_per_token = 2, .ffn_hidden_size = 8};
  CHECK(code_of_model(options) == "E0629");
}

}  // namespace shardsim::test
