#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/low_products.hpp"
#include "strategies/model/quantized_weights.hpp"

#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Products of linear layers in fewer bits: kernels and bytes of each, and what is kept.
namespace shardsim::test {
namespace {

using Recipe = ScalingRecipe;

constexpr std::array kLowRecipes = {Recipe::delayed, Recipe::tensorwise, Recipe::blockwise,
                                    Recipe::mxfp8, Recipe::nvfp4};

// Bytes of n elements in `rows` rows, with their scales.
std::int64_t quantized_bytes(Recipe recipe, std::int64_t rows, std::int64_t width) {
  switch (recipe) {
    case Recipe::blockwise:
      return rows * (width + 4 * (width / 128));
    case Recipe::mxfp8:
      return rows * (width + width / 32);
    case Recipe::nvfp4:
      return rows * (width / 2 + width / 16);
    default:
      return rows * width;
  }
}

// A weight's scales are those of blocks of 128 x 128 in one recipe.
std::int64_t weight_copy_bytes(Recipe recipe, std::int64_t n, std::int64_t k) {
  if (recipe == Recipe::blockwise) return n * k + 4 * (n / 128) * (k / 128);
  return quantized_bytes(recipe, n, k);
}

bool has_blocks(Recipe recipe) {
  return recipe == Recipe::blockwise || recipe == Recipe::mxfp8 || recipe == Recipe::nvfp4;
}

bool reads_first(Recipe recipe) { return recipe == Recipe::tensorwise || recipe == Recipe::nvfp4; }

// Kernels of a name, and their bytes.
struct Kernels {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};
Kernels kernels_of(const std::vector<ComputeOp>& ops, const std::string& name) {
  Kernels found;
  for (const ComputeOp& op : ops) {
    if (op.name != name) continue;
    ++found.count;
    found.bytes += op.bytes;
  }
  return found;
}

}  // namespace

TEST_CASE("K5: a cast reads a tensor once, and writes a copy for each direction") {
  for (const Recipe recipe : kLowRecipes) {
    for (const bool transposes : {false, true}) {
      const LowPrecision low{.recipe = recipe, .needs_transposes = transposes};
      const bool two = has_blocks(recipe) || transposes;
      CAPTURE(row_of(recipe).name, transposes);
      CHECK(low.has_two_copies() == two);
      for (const Copies copies : {Copies::both, Copies::rows, Copies::columns}) {
        RecordingRuntime runtime(false);
        const Tensor x = new_activation(runtime, {3, 4, 256}, DType::bf16);
        const QuantizedTensor made = quantize(runtime, low, x, copies);
        const std::int64_t one = quantized_bytes(recipe, 12, 256);
        const std::int64_t written = two && copies == Copies::both ? 2 * one : one;
        CHECK(kernels_of(runtime.ops(), "quantize").count == 1);
        CHECK(kernels_of(runtime.ops(), "quantize").bytes == 12 * 256 * 2 + written);
        const Kernels amax = kernels_of(runtime.ops(), "amax");
        CHECK(amax.count == (reads_first(recipe) ? 1 : 0));
        CHECK(amax.bytes == amax.count * 12 * 256 * 2);
        CHECK(runtime.activation_bytes() == 12 * 256 * 2 + written);
        CHECK(made.rows.defined() == (!two || copies != Copies::columns));
        CHECK(made.columns.defined() == (!two || copies != Copies::rows));
      }
    }
  }
}

TEST_CASE("K5: the largest element of a norm's output is a family of its own") {
  for (const Recipe recipe : {Recipe::tensorwise, Recipe::nvfp4}) {
    const LowPrecision low{.recipe = recipe};
    for (const Written by : {Written::by_others, Written::by_norm}) {
      // NVFP4 transforms a tensor before it is cast, so its norm cannot know.
      const bool norm_may = by == Written::by_norm && recipe == Recipe::tensorwise;
      RecordingRuntime runtime(false);
      const Tensor x = new_activation(runtime, {3, 256}, DType::bf16);
      (void)quantize(runtime, low, x, Copies::both, {.by = by});
      REQUIRE(runtime.ops().size() == 2);
      CHECK(runtime.ops()[0].shape.family ==
            (norm_may ? KernelFamily::amax_of_norm : KernelFamily::amax));
      CHECK(runtime.ops()[1].shape.family == KernelFamily::quantize);
    }
  }
}

TEST_CASE("K5: products read quantized operands and write 16 bits") {
  constexpr std::int64_t kRows = 96, kIn = 256, kOut = 384;
  for (const Recipe recipe : kLowRecipes) {
    CAPTURE(row_of(recipe).name);
    const LowPrecision low{.recipe = recipe};
    RecordingRuntime runtime(false);
    const Tensor x = new_activation(runtime, {kRows, kIn}, DType::bf16);
    const Tensor dy = new_activation(runtime, {kRows, kOut}, DType::bf16);
    const Tensor weight = new_activation(runtime, {kOut, kIn}, DType::bf16);
    const Tensor gradient = new_activation(runtime, {kOut, kIn}, DType::fp32);
    const LowProduct product = product_of(low, weight);
    const QuantizedTensor qx = quantize(runtime, low, x, Copies::both);
    const QuantizedTensor qdy = quantize(runtime, low, dy, Copies::both);
    const Tensor y = low_forward(runtime, product, qx.rows, {}, {}, DType::bf16);
    const Tensor dx = low_backward_input(runtime, product, qdy.rows, {}, DType::bf16);
    low_backward_weight(runtime, product, qdy.columns, qx.columns, gradient);
    CHECK(y.shape() == Shape{kRows, kOut});
    CHECK(dx.shape() == Shape{kRows, kIn});
    const std::int64_t of_x = quantized_bytes(recipe, kRows, kIn);
    const std::int64_t of_dy = quantized_bytes(recipe, kRows, kOut);
    const std::int64_t of_weight = weight_copy_bytes(recipe, kOut, kIn);
    const auto bytes = [&](const char* name) { return kernels_of(runtime.ops(), name).bytes; };
    CHECK(bytes("linear") == of_x + of_weight + 2 * kRows * kOut);
    CHECK(bytes("linear_backward_input") == of_dy + of_weight + 2 * kRows * kIn);
    CHECK(bytes("linear_backward_weight") == of_dy + of_x + 2 * 4 * kOut * kIn);
    for (const ComputeOp& op : runtime.ops()) {
      if (op.kind != ComputeKind::matmul) continue;
      CHECK(op.dtype == (recipe == Recipe::nvfp4 ? DType::fp4_e2m1 : DType::fp8_e4m3));
      CHECK(op.flops == 2 * kRows * kIn * kOut);
      CHECK(op.shape.has_block_scales == (recipe == Recipe::blockwise));
    }
  }
}

TEST_CASE("K5: weights are quantized once in a step, and their copies stay") {
  for (const bool transposes : {false, true}) {
    const LowPrecision low{.recipe = Recipe::tensorwise, .needs_transposes = transposes};
    RecordingRuntime runtime(false);
    const Tensor weight = runtime.allocate(MemoryCategory::params, {64, 32}, DType::bf16);
    const std::int64_t alone = runtime.ledger()->now(MemoryCategory::params);
    QuantizedWeights weights;
    for (int step = 1; step <= 3; ++step) {
      weights.begin_step();
      for (int microbatch = 0; microbatch < 4; ++microbatch) weights.make(runtime, low, 0, weight);
      CHECK(kernels_of(runtime.ops(), "quantize").count == step);
      CHECK(runtime.ledger()->now(MemoryCategory::params) ==
            alone + (transposes ? 2 : 1) * 64 * 32);
    }
  }
}

TEST_CASE("first and last blocks stay in full precision") {
  const LowPrecision low{.recipe = Recipe::delayed, .blocks_at_start = 1, .blocks_at_end = 2};
  std::vector<int> taken;
  for (int block = 0; block < 8; ++block) {
    if (low.takes(block, 6)) taken.push_back(block);
  }
  CHECK(taken == std::vector<int>{1, 2, 3, 6, 7});  // 6 and 7: of multi-token prediction.
  CHECK_FALSE(LowPrecision{}.takes(3, 6));
}

// A block of the llama family: q, k, v and gate, up read one tensor each, and so do out and down.
TEST_CASE("K5: a block quantizes each tensor once for all its readers") {
  for (const Recipe recipe : kLowRecipes) {
    for (const bool transposes : {false, true}) {
      CAPTURE(row_of(recipe).name, transposes);
      ModelOptions options = small_model("llama", DType::bf16);
      options.low = {.recipe = recipe, .needs_transposes = transposes};
      const auto model = make_model(options);
      RecordingRuntime runtime(false);
      WholeParameters parameters(*model, runtime, 5, DType::bf16, DType::fp32);
      const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
      const std::int64_t before = runtime.activation_bytes();
      std::vector<Saved> saved;
      (void)run_forward(*model, runtime, parameters, batch, saved);
      const std::size_t forward = runtime.ops().size();
      const std::vector<ComputeOp> of_forward(runtime.ops().begin(), runtime.ops().end());
      run_backward(*model, runtime, parameters, batch, saved);
      const std::vector<ComputeOp> of_backward(
          runtime.ops().begin() + static_cast<std::ptrdiff_t>(forward), runtime.ops().end());
      const std::int64_t layers = options.num_layers;
      // Forward: of attention's input and output, of the MLP's and of what its activation leaves.
      CHECK(kernels_of(of_forward, "quantize").count == 4 * layers);
      const auto of_norms = std::ranges::count_if(of_forward, [](const ComputeOp& op) {
        return op.shape.family == KernelFamily::amax_of_norm;
      });
      CHECK(of_norms == (recipe == Recipe::tensorwise ? 2 * layers : 0));
      // Backward: the gradients of seven outputs.
      CHECK(kernels_of(of_backward, "quantize").count == 7 * layers);
      saved.clear();
      CHECK(runtime.activation_bytes() == before);
    }
  }
}

// All that backward keeps of a linear layer's input is quantized.
TEST_CASE("kept bytes: inputs of linear layers are kept in fewer bits") {
  const auto kept_by = [](const LowPrecision& low) {
    ModelOptions options = small_model("llama", DType::bf16);
    options.low = low;
    const auto model = make_model(options);
    RecordingRuntime runtime(false);
    WholeParameters parameters(*model, runtime, 5, DType::bf16, DType::fp32);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved;
    const std::int64_t before = runtime.activation_bytes();
    (void)run_forward(*model, runtime, parameters, batch, saved);
    return runtime.activation_bytes() - before;
  };
  const ModelOptions options = small_model("llama", DType::bf16);
  const std::int64_t tokens = 2 * options.seq_len;
  const std::int64_t h = options.hidden_size;
  const std::int64_t y = options.num_attention_heads * options.value_size();
  const std::int64_t f = options.ffn_hidden_size;
  const std::int64_t plain = kept_by({});
  for (const bool transposes : {false, true}) {
    // Two norms' outputs and the activation's in 1 byte instead of 2; attention's output stays for
    // its own backward.
    const std::int64_t low = kept_by({.recipe = Recipe::delayed, .needs_transposes = transposes});
    CHECK(low - plain == options.num_layers * tokens * (-2 * h - f + y));
  }
}

// A model that quantizes at each use shows which weights those are.
TEST_CASE("the weights that a step quantizes are those that products read") {
  for (const char* name : {"gpt2", "llama", "moe"}) {
    ModelOptions options = small_model(name, DType::bf16);
    options.low = {.recipe = Recipe::delayed, .blocks_at_start = 1};
    const auto model = make_model(options);
    CAPTURE(name);
    RecordingRuntime runtime(false);
    WholeParameters parameters(*model, runtime, 5, DType::bf16, DType::fp32);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::int64_t quantized = 0;
    std::int64_t bytes = 0;
    for (const ParameterSpec& spec : model->parameters()) {
      if (spec.low == nullptr) continue;
      ++quantized;
      bytes += spec.shape.numel();
    }
    const auto casts_with = [&](bool at_use) {
      const std::size_t first = runtime.ops().size();
      Tensor x;
      std::vector<Saved> saved(static_cast<std::size_t>(model->num_modules()));
      for (int module = 0; module < model->num_modules(); ++module) {
        ModelContext context{runtime, parameters};
        context.quantizes_at_use = at_use;
        x = model->forward(module, context, x, batch, saved[static_cast<std::size_t>(module)]);
      }
      return kernels_of(
          {runtime.ops().begin() + static_cast<std::ptrdiff_t>(first), runtime.ops().end()},
          "quantize");
    };
    const Kernels with = casts_with(true);
    const Kernels without = casts_with(false);
    CHECK(quantized > 0);
    CHECK(with.count - without.count == quantized);
    CHECK(with.bytes - without.bytes == 3 * bytes);
  }
}

}  // namespace shardsim::test
