#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Activation memory and flops against closed formulas, on shapes alone.
using namespace shardsim;
using namespace shardsim::test;

namespace {

constexpr std::int64_t b = 3;

// A model of realistic proportions; all sizes differ, so that no term can hide behind another.
ModelOptions medium(const char* family, DType dtype) {
  return {.family = family,
          .num_layers = 3,
          .hidden_size = 256,
          .ffn_hidden_size = 704,
          .num_attention_heads = 8,
          .num_query_groups = 2,
          .vocab_size = 1000,
          .seq_len = 96,
          .max_position_embeddings = 128,
          .tied_embeddings = false,
          .dtype = dtype};
}

struct Run {
  explicit Run(const ModelOptions& options)
      : model(make_model(options)),
        parameters(*model, runtime, 0, options.dtype, options.dtype),
        batch(model->make_batch(runtime, 0, 0, b, 0.0)),
        saved(static_cast<std::size_t>(model->num_modules())) {}

  // Bytes that a module's forward leaves behind, what it returns included.
  std::int64_t forward(int module) {
    const std::int64_t before = runtime.activation_bytes();
    inputs.push_back(x);  // Kept, so that nothing of the module before is freed on the way.
    x = model->forward(module, {runtime, parameters}, x, batch,
                       saved[static_cast<std::size_t>(module)]);
    return runtime.activation_bytes() - before;
  }

  RecordingRuntime runtime{false};
  std::unique_ptr<Model> model;
  WholeParameters parameters;
  Batch batch;
  std::vector<Saved> saved;
  std::vector<Tensor> inputs;
  Tensor x;
};

}  // namespace

TEST_CASE("a GPT-2 block keeps what the formula says") {
  for (const DType dtype : {DType::bf16, DType::fp64}) {
    const ModelOptions o = medium("gpt2", dtype);
    Run run(o);
    const std::int64_t e = size_of(dtype);
    const std::int64_t w = dtype == DType::fp64 ? 8 : 4;  // Statistics.
    const std::int64_t bs = b * o.seq_len;
    const std::int64_t h = o.hidden_size;
    const std::int64_t qkv = h + 2 * h * o.num_query_groups / o.num_attention_heads;
    CHECK(run.forward(0) == e * bs * h);
    // Both norms, q k v, attention's output, the middle, the result; before and after gelu; mean
    // and deviation of two norms, and a log-sum-exp per head.
    const std::int64_t block = e * bs * (5 * h + qkv + 2 * o.ffn_hidden_size) + w * bs * 4 +
                               w * bs * o.num_attention_heads;
    for (int module = 1; module <= 3; ++module) CHECK(run.forward(module) == block);
    // Norm, logits, statistics, the loss.
    CHECK(run.forward(4) == e * bs * (h + o.vocab_size) + w * bs * 3 + 8);
  }
}

TEST_CASE("with all heads their own, a GPT-2 block in 16 bits keeps 32 s b h and the statistics") {
  // Source of the count: Korthikanti et al., "Reducing Activation Recomputation in Large
  // Transformer Models" (2022): 34 s b h without attention's scores, of which 2 are dropout masks,
  // which we do not have.
  ModelOptions o = medium("gpt2", DType::bf16);
  o.num_query_groups = o.num_attention_heads;
  o.ffn_hidden_size = 4 * o.hidden_size;
  Run run(o);
  (void)run.forward(0);
  const std::int64_t bs = b * o.seq_len;
  CHECK(run.forward(1) == 32 * bs * o.hidden_size + 4 * bs * (4 + o.num_attention_heads));
}

TEST_CASE("a Llama block keeps what the formula says") {
  for (const DType dtype : {DType::bf16, DType::fp64}) {
    const ModelOptions o = medium("llama", dtype);
    Run run(o);
    const std::int64_t e = size_of(dtype);
    const std::int64_t w = dtype == DType::fp64 ? 8 : 4;
    const std::int64_t bs = b * o.seq_len;
    const std::int64_t h = o.hidden_size;
    const std::int64_t kv = h * o.num_query_groups / o.num_attention_heads;
    CHECK(run.forward(0) == e * bs * h);
    // Both norms, q, attention's output, the middle, the result; k and v; gate, up, their product.
    const std::int64_t block = e * bs * (6 * h + 2 * kv + 3 * o.ffn_hidden_size) + w * bs * 2 +
                               w * bs * o.num_attention_heads;
    for (int module = 1; module <= 3; ++module) CHECK(run.forward(module) == block);
    CHECK(run.forward(4) == e * bs * (h + o.vocab_size) + w * bs * 2 + 8);
  }
}

TEST_CASE("backward frees activations on the way and leaves none behind") {
  for (const char* family : {"mlp", "gpt2", "llama"}) {
    ModelOptions o = medium(family, DType::bf16);
    if (o.family == "mlp") o.seq_len = 1;
    Run run(o);
    const std::int64_t before = run.runtime.activation_bytes();  // The batch.
    for (int module = 0; module < run.model->num_modules(); ++module) (void)run.forward(module);
    run.inputs.clear();
    run.x = {};
    Tensor d;
    for (int module = run.model->num_modules() - 1; module >= 0; --module) {
      const std::int64_t held = run.runtime.activation_bytes();
      d = run.model->backward(module, {run.runtime, run.parameters}, d, run.batch,
                              run.saved[static_cast<std::size_t>(module)]);
      CHECK(run.runtime.activation_bytes() < held);
    }
    CHECK(run.runtime.activation_bytes() == before);
  }
}

namespace {

// An operation of a module's backward, and the activation bytes held while it runs, less those held
// when backward began.
struct Moment {
  std::string op;
  std::int64_t change = 0;
  friend bool operator==(const Moment&, const Moment&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Moment& moment) {
    return out << moment.op << ' ' << moment.change;
  }
};

std::vector<Moment> moments_of_backward(const ModelOptions& options, int wanted) {
  Run run(options);
  for (int module = 0; module < run.model->num_modules(); ++module) (void)run.forward(module);
  run.inputs.clear();
  run.x = {};
  Tensor d;
  for (int module = run.model->num_modules() - 1; module > wanted; --module) {
    d = run.model->backward(module, {run.runtime, run.parameters}, d, run.batch,
                            run.saved[static_cast<std::size_t>(module)]);
  }
  const std::int64_t held = run.runtime.activation_bytes();
  const std::size_t begin = run.runtime.ops().size();
  d = run.model->backward(wanted, {run.runtime, run.parameters}, d, run.batch,
                          run.saved[static_cast<std::size_t>(wanted)]);
  std::vector<Moment> moments;
  for (std::size_t i = begin; i < run.runtime.ops().size(); ++i) {
    moments.push_back({run.runtime.ops()[i].name, run.runtime.activation_bytes_at()[i] - held});
  }
  return moments;
}

}  // namespace

TEST_CASE("backward of a GPT-2 block frees each activation after its last use") {
  const ModelOptions o = medium("gpt2", DType::bf16);
  const std::int64_t h = 2 * b * o.seq_len * o.hidden_size;  // Bytes of [b, s, h]
  const std::int64_t f = 2 * b * o.seq_len * o.ffn_hidden_size;
  const std::int64_t q = h + 2 * h / 4;  // [b, s, (a + 2 g) d]
  const std::int64_t n = 2 * 4 * b * o.seq_len;
  const std::int64_t l = 4 * b * o.seq_len * o.num_attention_heads;
  CHECK(
      moments_of_backward(o, 2) ==
      std::vector<Moment>{{"linear_backward_bias", 0},
                          {"linear_backward_weight", 0},
                          {"linear_backward_input", -f + f},  // Activated gone, its gradient made.
                          {"gelu_backward", 0},
                          {"linear_backward_bias", -f},
                          {"linear_backward_weight", -f},
                          {"linear_backward_input", -f - h + h},
                          {"layer_norm_backward", -2 * f + h},
                          {"add", -2 * f - h - n},
                          {"linear_backward_bias", -2 * f - h - n},
                          {"linear_backward_weight", -2 * f - h - n},
                          {"linear_backward_input", -2 * f - n},
                          {"attention_backward", -2 * f - n + q},
                          {"linear_backward_bias", -2 * f - n - 2 * h - l},
                          {"linear_backward_weight", -2 * f - n - 2 * h - l},
                          {"linear_backward_input", -2 * f - n - 3 * h - l + h},
                          {"layer_norm_backward", -2 * f - n - 2 * h - l - q + h},
                          {"add", -2 * f - n - 2 * h - l - q}});
}

TEST_CASE("backward of a Llama block frees each activation after its last use") {
  const ModelOptions o = medium("llama", DType::bf16);
  const std::int64_t h = 2 * b * o.seq_len * o.hidden_size;  // Bytes of [b, s, h]
  const std::int64_t f = 2 * b * o.seq_len * o.ffn_hidden_size;
  const std::int64_t k = h / 4;  // [b, s, g d]
  const std::int64_t n = 4 * b * o.seq_len;
  const std::int64_t l = 4 * b * o.seq_len * o.num_attention_heads;
  const std::int64_t mlp = -3 * f - h - n;  // All that the second branch kept, but its norm's x:
                                            // the gradient of the middle took its place.
  CHECK(moments_of_backward(o, 2) ==
        std::vector<Moment>{{"linear_backward_weight", 0},
                            {"linear_backward_input", -f + f},
                            {"swiglu_backward", f},
                            {"linear_backward_weight", -f},  // Two of three gone, two gradients.
                            {"linear_backward_weight", -f},
                            {"linear_backward_input", -f - h + h},
                            {"linear_backward_input", -2 * f},
                            {"rms_norm_backward", -3 * f + h},
                            {"add", mlp},
                            {"linear_backward_weight", mlp},
                            {"linear_backward_input", mlp + h},
                            {"attention_backward", mlp + 2 * h + 2 * k},
                            {"rotary_backward", mlp - h - l},  // dq, dk and dv live.
                            {"rotary_backward", mlp - h - l},
                            {"linear_backward_weight", mlp - h - l},
                            {"linear_backward_weight", mlp - h - l},
                            {"linear_backward_weight", mlp - h - l},
                            {"linear_backward_input", mlp - l - 2 * h + h},
                            {"linear_backward_input", mlp - l - h},
                            {"linear_backward_input", mlp - l - h},
                            {"rms_norm_backward", mlp - l - h - h - 2 * k + h},
                            {"add", mlp - l - 2 * h - 2 * k}});
}

TEST_CASE("backward of the head turns logits into their gradient and then frees them") {
  const ModelOptions o = medium("llama", DType::bf16);
  const std::int64_t bs = b * o.seq_len;
  const std::int64_t h = 2 * bs * o.hidden_size;
  const std::int64_t v = 2 * bs * o.vocab_size;
  CHECK(moments_of_backward(o, 4) == std::vector<Moment>{{"cross_entropy_backward", 0},
                                                         {"linear_backward_weight", -4 * bs},
                                                         {"linear_backward_input", -4 * bs - h + h},
                                                         {"rms_norm_backward", -4 * bs - v + h}});
}

TEST_CASE("backward of a perceptron's layer frees its output, then its input") {
  ModelOptions o = medium("mlp", DType::bf16);
  o.seq_len = 1;
  const std::int64_t f = 2 * b * o.ffn_hidden_size;
  CHECK(moments_of_backward(o, 1) == std::vector<Moment>{{"relu_backward", 0},
                                                         {"linear_backward_bias", -f},
                                                         {"linear_backward_weight", -f},
                                                         {"linear_backward_input", 0}});
}

TEST_CASE("the operations of a step add up to the model's flops") {
  for (const char* family : {"gpt2", "llama"}) {
    const ModelOptions o = medium(family, DType::bf16);
    Run run(o);
    for (int module = 0; module < run.model->num_modules(); ++module) (void)run.forward(module);
    run_backward(*run.model, run.runtime, run.parameters, run.batch, run.saved);
    std::int64_t flops = 0;
    for (const ComputeOp& op : run.runtime.ops()) flops += op.flops;
    // Attention's backward computes the scores once more than the model needs: one product over
    // half of the square, per block.
    const std::int64_t again = o.num_layers * b * o.seq_len * o.seq_len * o.hidden_size;
    CHECK(flops == b * run.model->model_flops_per_sample() + again);
  }
}

TEST_CASE("model flops are six per weight and position, and attention's half square") {
  // llama2-7b at 4,096 positions. Weights in products: all but embedding and norms.
  const auto model = make_model({.family = "llama",
                                 .num_layers = 32,
                                 .hidden_size = 4096,
                                 .ffn_hidden_size = 11008,
                                 .num_attention_heads = 32,
                                 .num_query_groups = 32,
                                 .vocab_size = 32000,
                                 .seq_len = 4096});
  const std::int64_t weights = 6738415616 - 32000 * 4096 - 65 * 4096;
  const std::int64_t attention = 6LL * 32 * 4096 * 4096 * 4096;
  CHECK(model->model_flops_per_sample() == 6 * 4096 * weights + attention);
}

TEST_CASE("a perceptron's flops are six per weight and sample, less the gradient of its data") {
  ModelOptions o = medium("mlp", DType::fp32);
  o.seq_len = 1;
  Run run(o);
  for (int module = 0; module < run.model->num_modules(); ++module) (void)run.forward(module);
  run_backward(*run.model, run.runtime, run.parameters, run.batch, run.saved);
  std::int64_t flops = 0;
  for (const ComputeOp& op : run.runtime.ops()) flops += op.flops;
  const std::int64_t first = o.hidden_size * o.ffn_hidden_size;
  const std::int64_t weights =
      first + 2 * o.ffn_hidden_size * o.ffn_hidden_size + o.ffn_hidden_size * o.vocab_size;
  CHECK(run.model->model_flops_per_sample() == 6 * weights - 2 * first);
  CHECK(flops == b * (6 * weights - 2 * first));
}
