#include "strategies/model/activation_store.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/low_precision.hpp"
#include "strategies/model/quantized_data.hpp"

#include "tests/strategies/block_pass.hpp"
#include "tests/strategies/expert_layer_fixture.hpp"
#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// Inputs of activation functions that stay in 8 bits: bytes, kernels, and the numbers that backward
// reads.
namespace shardsim::test {
namespace {

using Store = ActivationStore;
constexpr std::array kNarrowStores = {Store::e4m3, Store::blockwise};

// Own definition: the nearest number of e4m3, times the scale that a block's largest element asks
// for, a power of two so that the largest is at most 448.
double as_stored(Store store, const std::vector<double>& row, std::size_t at) {
  double scale = 1.0;
  if (store == Store::blockwise) {
    const std::size_t first = at / 128 * 128;
    double largest = 0.0;
    for (std::size_t i = first; i < std::min(first + 128, row.size()); ++i) {
      largest = std::max(largest, std::fabs(row[i]));
    }
    scale = std::exp2(-std::floor(std::log2(448.0 / largest)));
  }
  return scale * from_narrow(to_narrow(row[at] / scale, kE4m3), kE4m3);
}

Tensor there_and_back(Runtime& runtime, Store store, const Tensor& x) {
  Tensor moved = x;
  narrow_to_stay(runtime, store, moved);
  widen_to_read(runtime, store, x.dtype(), moved);
  return moved;
}

ModelOptions with_store(ModelOptions options, Store store) {
  options.activation.store = store;
  return options;
}

ModelOptions wide_block(bool has_experts) {
  ModelOptions options{.family = "llama",
                       .num_layers = 1,
                       .hidden_size = 64,
                       .ffn_hidden_size = 384,
                       .num_attention_heads = 4,
                       .num_query_groups = 2,
                       .vocab_size = 100,
                       .seq_len = 24,
                       .dtype = DType::bf16};
  if (!has_experts) return options;
  options.layers = {{.mixer = Mixer::none, .feed_forward = FeedForward::experts}};
  options.moe = {.num_experts = 8,
                 .experts_per_token = 3,
                 .ffn_hidden_size = 256,
                 .shared_ffn_hidden_size = 128};
  return options;
}

// Gradients of a small model, after `change` has seen what its block keeps.
template <typename Change>
std::vector<std::vector<double>> gradients_of(const ModelOptions& options, const Change& change) {
  RecordingRuntime runtime(true);
  const std::unique_ptr<Model> model = make_model(options);
  WholeParameters parameters(*model, runtime, 5, DType::fp64, DType::fp64);
  for (int i = 0; i < parameters.size(); ++i) {
    const Tensor weight = parameters.weight(i);  // As large as those of a trained model.
    for (std::int64_t j = 0; j < weight.numel(); ++j) weight.set(j, 20.0 * weight.get(j));
  }
  const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
  std::vector<Saved> saved;
  static_cast<void>(run_forward(*model, runtime, parameters, batch, saved));
  for (Saved& module : saved) change(runtime, module);
  run_backward(*model, runtime, parameters, batch, saved);
  std::vector<std::vector<double>> gradients;
  for (int i = 0; i < parameters.size(); ++i) {
    gradients.push_back(values_of(parameters.gradient(i)));
  }
  return gradients;
}

}  // namespace

TEST_CASE("what stays is the nearest number of e4m3, with a scale for each block or none") {
  RecordingRuntime runtime(true);
  for (const Store store : kNarrowStores) {
    const Tensor x = new_activation(runtime, {2, 3, 256}, DType::fp64);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      x.set(i, std::exp(0.05 * static_cast<double>(i % 251)) * ((i % 3) - 1.0));
    }
    const Tensor read = there_and_back(runtime, store, x);
    REQUIRE(read.shape() == x.shape());
    for (std::int64_t row = 0; row < num_rows(x); ++row) {
      const std::vector<double> values = values_of(x.view(row * 256, {256}));
      for (std::int64_t i = 0; i < 256; ++i) {
        CAPTURE(static_cast<int>(store), row, i);
        CHECK(read.get(row * 256 + i) == as_stored(store, values, to_size(i)));
      }
    }
  }
}

TEST_CASE("a narrow input is a cast there and one back, of so many bytes") {
  for (const Store store : kNarrowStores) {
    RecordingRuntime runtime(false);
    Tensor x = new_activation(runtime, {6, 256}, DType::bf16);
    const std::int64_t wide = 6 * 256 * 2;
    const std::int64_t narrow = 6 * (256 + (store == Store::blockwise ? 2 * 4 : 0));
    narrow_to_stay(runtime, store, x);
    CHECK(runtime.activation_bytes() == narrow);
    widen_to_read(runtime, store, DType::bf16, x);
    CHECK(runtime.activation_bytes() == wide);
    REQUIRE(runtime.ops().size() == 2);
    for (const ComputeOp& op : runtime.ops()) {
      CHECK(op.bytes == wide + narrow);
      CHECK(op.shape.family == KernelFamily::quantize);
    }
    Tensor none;
    narrow_to_stay(runtime, store, none);
    CHECK_FALSE(none.defined());
  }
  RecordingRuntime runtime(false);
  Tensor x = new_activation(runtime, {6, 256}, DType::bf16);
  narrow_to_stay(runtime, Store::same, x);
  CHECK((x.dtype() == DType::bf16 && runtime.ops().empty()));
}

TEST_CASE("blocks keep gate and up in half the bytes, whatever else is recomputed") {
  constexpr std::int64_t kTokens = 2 * 24;
  for (const bool has_experts : {false, true}) {
    for (const bool recomputes : {false, true}) {
      ModelOptions options = wide_block(has_experts);
      if (recomputes) options.recompute = Recompute::selective;
      const BlockPass same(options, 2);
      // Channels of gate and up for each token: a dense MLP's, or three experts' and the shared.
      const std::int64_t channels = has_experts ? 2 * (3 * 256 + 128) : 2 * 384;
      const BlockPass plain(with_store(options, Store::e4m3), 2);
      const BlockPass blocks(with_store(options, Store::blockwise), 2);
      CAPTURE(has_experts, recomputes);
      CHECK(same.kept - plain.kept == kTokens * channels);
      CHECK(same.kept - blocks.kept == kTokens * (channels - channels / 128 * 4));
    }
  }
}

TEST_CASE("backward reads gate and up as they stayed, and forward as they were") {
  std::vector<ModelOptions> models = {small_model("llama"), small_model("gpt2"),
                                      model_with_experts(some_experts(RoutingKind::learned, 2))};
  for (ModelOptions& options : models) {
    for (const bool recomputes : {false, true}) {
      const bool has_experts = options.moe.num_experts > 0;
      const std::int64_t channels =
          has_experts ? options.moe.ffn_hidden_size : options.ffn_hidden_size;
      options.recompute = recomputes ? Recompute::selective : Recompute::none;
      const bool has_gate = options.family == "llama";
      // The first two tensors of so many channels are gate and up; without a gate it is one.
      const auto round = [&](Runtime& runtime, Saved& kept) {
        int left = has_gate ? 2 : 1;
        for (Tensor& each : kept) {
          if (!each.defined() || last_dim(each) != channels || left-- <= 0) continue;
          each = there_and_back(runtime, Store::e4m3, each);
        }
      };
      const auto nothing = [](Runtime&, Saved&) {};
      const auto wanted = gradients_of(options, round);
      const auto without = gradients_of(options, nothing);
      const auto with = gradients_of(with_store(options, Store::e4m3), nothing);
      CAPTURE(options.family, has_experts, recomputes);
      CHECK((with == wanted));
      CHECK((with != without));
    }
  }
}

}  // namespace shardsim::test
