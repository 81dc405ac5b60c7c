#include "sim/experiment/model_words.hpp"

#include <string>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"

// Models in words: what MFU counts, and what layers are.
namespace shardsim::test {
namespace {

ModelSpec model_of(const std::string& model) {
  return load_scenario_text(R"({"schema_version": 1, "model": )" + model +
                                R"(, "system": {"preset": "dgx-h100", "nodes": 1},
                                   "training": {"global_batch_size": 8}})",
                            "test.json")
      .model;
}

constexpr const char* kMlp = R"({"family": "mlp", "num_layers": 2, "hidden_size": 8,
  "ffn_hidden_size": 16, "vocab_size": 4})";

}  // namespace

TEST_CASE("what MFU counts follows from the model's layers") {
  const std::string products = "3 x forward's matrix products";
  CHECK(mfu_convention(model_of(kMlp)) == products);
  CHECK(mfu_convention(model_of("\"gpt2\"")) == products + ", causal pairs of positions");
  CHECK(mfu_convention(model_of("\"gpt-oss-20b\"")) ==
        products + ", causal pairs of positions, pairs in windows, chosen experts");
  CHECK(mfu_convention(model_of("\"llama-4-scout\"")) ==
        products + ", causal pairs of positions, pairs in chunks, chosen experts");
  CHECK(mfu_convention(model_of(R"({"preset": "deepseek-v3", "mtp_num_layers": 1})")) ==
        products +
            ", causal pairs of positions, projections of latents, chosen experts, block and "
            "head of each prediction depth");
  CHECK(mfu_convention(model_of("\"qwen3.5-27b\"")) ==
        products + ", causal pairs of positions, 8 d^2 per token and head of DeltaNet");
  CHECK(mfu_convention(model_of("\"falcon-h1-34b\"")) ==
        products + ", causal pairs of positions, 7 d N per token and head of Mamba-2");
}

TEST_CASE("layers are said with their sizes, and with their number where not all are alike") {
  const ModelSpec mimo = model_of("\"mimo-v2-flash\"");
  CHECK(mixers_in_words(mimo) ==
        "64 heads of 192, 4 of keys and values, values of 128 in 9 of 48 layers; 64 heads of 192, "
        "8 of keys and values, values of 128 in 39 of 48 layers; windows of 128 in 39 of 48 "
        "layers; sinks in 39 of 48 layers");
  const ModelSpec super = model_of("\"nemotron-3-super\"");
  CHECK(mixers_in_words(super) ==
        "32 heads of 128, 2 of keys and values in 8 of 88 layers; no positions in 8 of 88 layers; "
        "Mamba-2 of 128 heads of 64, states of 128 in 40 of 88 layers");
  CHECK(feed_forwards_in_words(super) ==
        "512 squared_relu experts of 2,688, 22 for a token in 40 of 88 layers; a shared one of "
        "5,376; on "
        "latents of 1,024; sigmoid router with biases of the choice");
  const ModelSpec v3 = model_of("\"deepseek-v3\"");
  CHECK(mixers_in_words(v3) == "128 heads on latents: keys and values 512, queries 1,536");
  CHECK(feed_forwards_in_words(v3) ==
        "swiglu 18,432 in 3 of 61 layers; 256 swiglu experts of 2,048, 8 for a token in 58 of 61 "
        "layers; "
        "a shared one of 2,048; sigmoid router with biases of the choice, 4 of 8 groups");
  CHECK(mixers_in_words(model_of(kMlp)).empty());
  CHECK(mixers_in_words(model_of("\"falcon-h1-34b\""))
            .ends_with("; Mamba-2 of 32 heads of 128, states of 256 beside attention"));
  CHECK(blocks_in_words(model_of("\"gemma-2-27b\"")) ==
        "zero-centred RMS norms around branches; multipliers; capped logits; tied head");
  CHECK(blocks_in_words(model_of("\"command-a\"")) ==
        "layer norms; attention and MLP side by side; multipliers; tied head");
  CHECK(blocks_in_words(v3) == "RMS norms");
}

}  // namespace shardsim::test
