#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Activations that are computed again: the same gradients from less memory and more arithmetic.
namespace shardsim::test {
namespace {

struct RecordedPass {
  explicit RecordedPass(ModelOptions options, Recompute recompute) : runtime(true) {
    options.recompute = recompute;
    model = make_model(options);
    parameters = std::make_unique<WholeParameters>(*model, runtime, 5, options.dtype, DType::fp32);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved(static_cast<std::size_t>(model->num_modules()));
    const std::int64_t before = runtime.activation_bytes();
    Tensor x;
    for (std::size_t module = 0; module < saved.size(); ++module) {
      x = model->forward(static_cast<int>(module), {runtime, *parameters}, x, batch, saved[module]);
    }
    loss = x.get(0);
    x = {};
    held = runtime.activation_bytes() - before;
    forward_ops = runtime.ops().size();
    run_backward(*model, runtime, *parameters, batch, saved);
    CHECK(runtime.activation_bytes() == before);
  }

  // Calls of each operation in backward.
  [[nodiscard]] std::map<std::string, int> backward_ops() const {
    std::map<std::string, int> counts;
    for (std::size_t i = forward_ops; i < runtime.ops().size(); ++i) {
      ++counts[runtime.ops()[i].name];
    }
    return counts;
  }
  [[nodiscard]] std::int64_t flops(bool forward) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < runtime.ops().size(); ++i) {
      if ((i < forward_ops) == forward) sum += runtime.ops()[i].flops;
    }
    return sum;
  }

  RecordingRuntime runtime;
  std::unique_ptr<Model> model;
  std::unique_ptr<WholeParameters> parameters;
  double loss = 0.0;
  std::int64_t held = 0;  // Activations between forward and backward.
  std::size_t forward_ops = 0;
};

const std::vector<const char*> kTransformers = {"gpt2",       "untied gpt2",   "llama",
                                                "tied llama", "gpt2 dropping", "llama dropping"};

}  // namespace

TEST_CASE("whatever is recomputed, losses, gradients and their order are bitwise the same") {
  std::vector<const char*> names = with_block_shapes(kTransformers);
  for (const char* latent : {"latent llama", "llama with a latent of keys"}) {
    names.push_back(latent);  // Its memory and operations: latent_attention_test.cpp.
  }
  names.insert(names.end(), {"delta hybrid", "mamba hybrid", "parallel hybrid", "scaled hybrid",
                             "scaled parallel llama"});
  names.insert(names.end(), kHeadsOfLayers.begin(), kHeadsOfLayers.end());
  for (const char* name : names) {
    for (const DType dtype : {DType::fp64, DType::bf16}) {
      const RecordedPass none(small_model(name, dtype), Recompute::none);
      for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        const RecordedPass again(small_model(name, dtype), recompute);
        CAPTURE(name, static_cast<int>(recompute));
        CHECK(again.loss == none.loss);
        CHECK(again.parameters->ready() == none.parameters->ready());
        for (int i = 0; i < none.parameters->size(); ++i) {
          CHECK(max_difference(again.parameters->gradient(i), none.parameters->gradient(i)) == 0.0);
        }
        CHECK(again.flops(true) == none.flops(true));
      }
    }
  }
}

TEST_CASE("full recomputation keeps a block's input alone, and runs its forward twice") {
  // b = 2, s = 5, h = 8, f = 12; two blocks; 8 bytes.
  for (const char* name : kTransformers) {
    const ModelOptions options = small_model(name);
    const RecordedPass none(options, Recompute::none);
    const RecordedPass full(options, Recompute::full);
    const bool gpt2 = options.family == "gpt2";
    const std::int64_t tokens = 2 * 5;
    // Beside the input: two norms and the middle of width h, q, k, v and the attention's output,
    // the hidden activations, statistics, log-sum-exps of 4 heads.
    const std::int64_t per_token =
        3 * 8 + (gpt2 ? 3 * 8 + 8 + 2 * 12 + 2 * 2 : 8 + 2 * 4 + 8 + 3 * 12 + 2) + 4;
    CAPTURE(name);
    CHECK(none.held - full.held == 2 * tokens * per_token * 8);
    // Embedding and head are not among what is run again.
    const std::int64_t head = 2 * tokens * 8 * 11;
    CHECK(full.flops(false) - none.flops(false) == none.flops(true) - head);
  }
}

TEST_CASE("selective recomputation repeats norms and activation functions, and no product") {
  for (const char* name : kTransformers) {
    const ModelOptions options = small_model(name);
    const RecordedPass none(options, Recompute::none);
    const RecordedPass selective(options, Recompute::selective);
    const bool gpt2 = options.family == "gpt2";
    const std::int64_t tokens = 2 * 5;
    CAPTURE(name);
    // Outputs of two norms and of the activation function; statistics.
    CHECK(none.held - selective.held == 2 * tokens * (2 * 8 + 12 + (gpt2 ? 4 : 2)) * 8);
    CHECK(selective.flops(false) == none.flops(false));
    std::map<std::string, int> expected = none.backward_ops();
    expected[gpt2 ? "layer_norm" : "rms_norm"] += 2 * 2;
    expected[gpt2 ? "gelu" : "swiglu"] += 2;
    CHECK(selective.backward_ops() == expected);
  }
}

}  // namespace shardsim::test
