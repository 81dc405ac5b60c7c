#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// The parts of a model, and the data it is trained on.
using namespace shardsim;
using namespace shardsim::test;

namespace {

ModelOptions gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.family = "gpt2",
          .num_layers = layers,
          .hidden_size = hidden,
          .ffn_hidden_size = 4 * hidden,
          .num_attention_heads = heads,
          .num_query_groups = heads,
          .vocab_size = 50257,
          .seq_len = 1024,
          .max_position_embeddings = 1024,
          .tied_embeddings = true};
}

ModelOptions llama(std::int64_t groups, std::int64_t ffn, std::int64_t vocab) {
  return {.family = "llama",
          .num_layers = 32,
          .hidden_size = 4096,
          .ffn_hidden_size = ffn,
          .num_attention_heads = 32,
          .num_query_groups = groups,
          .vocab_size = vocab,
          .seq_len = 4096};
}

}  // namespace

TEST_CASE("published models have their published number of parameters") {
  CHECK(num_parameters(*make_model(gpt2(12, 768, 12))) == 124439808);
  CHECK(num_parameters(*make_model(gpt2(48, 1600, 25))) == 1557611200);
  CHECK(num_parameters(*make_model(llama(32, 11008, 32000))) == 6738415616);
  CHECK(num_parameters(*make_model(llama(8, 14336, 128256))) == 8030261248);
}

TEST_CASE("names are unique and units partition the parameters in order") {
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name));
    std::set<std::string> names;
    for (const ParameterSpec& spec : model->parameters()) names.insert(spec.name);
    CHECK(names.size() == model->parameters().size());
    int next = 0;
    for (const ParameterUnit& unit : model->units()) {
      CHECK(unit.first == next);
      CHECK(unit.count > 0);
      next += unit.count;
    }
    CHECK(next == static_cast<int>(model->parameters().size()));
    std::set<int> used;
    for (int module = 0; module < model->num_modules(); ++module) {
      for (const int unit : model->units_of(module)) used.insert(unit);
    }
    CHECK(used.size() == model->units().size());
  }
}

TEST_CASE("a tied model has one root unit, read by the first and the last module") {
  const auto model = make_model(small_model("gpt2"));
  CHECK(model->num_modules() == 4);
  REQUIRE(model->units().size() == 3);
  CHECK(model->units()[0].name == "root");
  CHECK(model->units()[0].count == 4);  // Tokens, positions, weight and bias of the final norm.
  CHECK(model->units_of(0)[0] == 0);
  CHECK(model->units_of(2)[0] == 2);
  CHECK(model->units_of(3)[0] == 0);
  CHECK(model->parameters()[0].name == "embedding.tokens");
}

TEST_CASE("an untied model has a unit per module, and fully qualified names") {
  const auto model = make_model(small_model("llama"));
  std::vector<std::string> units;
  for (const ParameterUnit& unit : model->units()) units.push_back(unit.name);
  CHECK(units == std::vector<std::string>{"embedding", "blocks.0", "blocks.1", "head"});
  std::vector<std::string> names;
  for (const ParameterSpec& spec : model->parameters()) names.push_back(spec.name);
  CHECK(std::vector<std::string>(names.begin() + 10, names.begin() + 19) ==
        std::vector<std::string>{"blocks.1.norm1", "blocks.1.attention.wq", "blocks.1.attention.wk",
                                 "blocks.1.attention.wv", "blocks.1.attention.wo", "blocks.1.norm2",
                                 "blocks.1.mlp.gate", "blocks.1.mlp.up", "blocks.1.mlp.down"});
  CHECK(names.back() == "head");
}

TEST_CASE("a slice of a parameter starts with the values it has in the whole") {
  for (const Init init : {Init{Init::Kind::bell, 0.02}, Init{Init::Kind::integers, 3.0},
                          Init{Init::Kind::ones, 0.0}, Init{Init::Kind::zeros, 0.0}}) {
    const ParameterSpec spec{"some.weight", {5, 7}, init};
    const Tensor whole = zeros({5, 7});
    initialize(spec, 0, 42, 0, whole);
    const Tensor part = zeros({11});
    initialize(spec, 0, 42, 9, part);
    CHECK(max_difference(part, whole.view(9, {11})) == 0.0);
    if (init.kind == Init::Kind::ones || init.kind == Init::Kind::zeros) continue;
    initialize(spec, 0, 43, 9, part);
    CHECK(max_difference(part, whole.view(9, {11})) > 0.0);
    initialize({"another.weight", {5, 7}, init}, 0, 42, 9, part);
    CHECK(max_difference(part, whole.view(9, {11})) > 0.0);
  }
}

TEST_CASE("whole numbers cover their range evenly and a bell has its deviation") {
  const Tensor values = zeros({10000});
  initialize({"w", {10000}, {Init::Kind::integers, 2.0}}, 0, 1, 0, values);
  std::vector<int> counts(5);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    ++counts.at(static_cast<std::size_t>(values.get(i) + 2.0));
  }
  for (const int count : counts) CHECK(std::abs(count - 2000) < 200);  // Five deviations of 40.
  initialize({"w", {10000}, {Init::Kind::bell, 0.02}}, 0, 1, 0, values);
  const double variance = dot(values, values) / 10000.0;
  CHECK(variance == Approx(0.0004).epsilon(0.1));  // One deviation is 1.4 %.
}

TEST_CASE("the data of a sample do not depend on who asks for it") {
  LocalRuntime runtime;
  for (const char* name : kSmallModels) {
    const auto model = make_model(small_model(name));
    const Batch all = model->make_batch(runtime, 8, 3, 4, 0.4);
    for (std::int64_t sample = 0; sample < 4; ++sample) {
      const Batch one = model->make_batch(runtime, 8, 3 + sample, 1, 0.4);
      const auto row_of = [&](const Tensor& tensor) {
        return tensor.view(sample * tensor.numel() / 4, {tensor.numel() / 4});
      };
      CHECK(max_difference(one.inputs, row_of(all.inputs)) == 0.0);
      CHECK(max_difference(one.targets, row_of(all.targets)) == 0.0);
      if (one.mask.defined()) CHECK(max_difference(one.mask, row_of(all.mask)) == 0.0);
    }
    const Batch other = model->make_batch(runtime, 9, 3, 4, 0.4);
    CHECK(max_difference(other.inputs, all.inputs) > 0.0);
  }
}

TEST_CASE("tokens ahead are those of the same sample, and end with it") {
  LocalRuntime runtime;
  const auto model = make_model(small_model("predicting llama"));  // Two depths, samples of 5.
  const Batch full = model->make_batch(runtime, 8, 2, 20, 0.0);
  const Batch thinned = model->make_batch(runtime, 8, 2, 20, 0.3);
  REQUIRE(full.ahead.size() == 2);
  for (int depth = 1; depth <= 2; ++depth) {
    const TokensAhead& ahead = full.ahead[static_cast<std::size_t>(depth - 1)];
    const TokensAhead& some = thinned.ahead[static_cast<std::size_t>(depth - 1)];
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < 100; ++i) {
      const bool is_in_sample = i % 5 + depth < 5;
      CHECK(ahead.targets.get(i) == (is_in_sample ? full.targets.get(i + depth) : -1.0));
      CHECK(some.targets.get(i) == (is_in_sample ? thinned.targets.get(i + depth) : -1.0));
      if (i % 5 + depth <= 5) CHECK(ahead.inputs.get(i) == full.targets.get(i + depth - 1));
      if (i % 5 + depth > 5) CHECK(ahead.inputs.get(i) == 0.0);
      kept += some.targets.get(i) >= 0.0 ? 1 : 0;
    }
    CHECK(model->count_targets(8, 2, 20, 0.0, SequencePart{}, depth) == 20 * (5 - depth));
    CHECK(model->count_targets(8, 2, 20, 0.3, SequencePart{}, depth) == kept);
    CHECK(kept > 0);
  }
}

TEST_CASE("targets are the next tokens, and those ignored are as many as counted") {
  LocalRuntime runtime;
  const auto model = make_model(small_model("llama"));
  const Batch full = model->make_batch(runtime, 8, 2, 50, 0.0);
  const Batch thinned = model->make_batch(runtime, 8, 2, 50, 0.3);
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < full.targets.numel(); ++i) {
    if (i % 5 != 4) CHECK(full.targets.get(i) == full.inputs.get(i + 1));
    if (thinned.targets.get(i) == -1.0) continue;
    CHECK(thinned.targets.get(i) == full.targets.get(i));
    ++kept;
  }
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    std::int64_t kept_here = 0;
    for (std::int64_t i = 0; i < 5; ++i) kept_here += thinned.targets.get(5 * sample + i) >= 0.0;
    CHECK(model->count_targets(8, 2 + sample, 1, 0.3) == kept_here);
  }
  CHECK(model->count_targets(8, 2, 50, 0.3) == kept);
  CHECK(model->count_targets(8, 2, 50, 0.0) == 250);
  CHECK(kept > 250 * 0.7 - 40);  // Five deviations of 7.2.
  CHECK(kept < 250 * 0.7 + 40);

  const auto mlp = make_model(small_model("mlp"));
  const Batch rows = mlp->make_batch(runtime, 8, 2, 50, 0.3);
  double counted = 0.0;
  for (std::int64_t i = 0; i < 50; ++i) counted += rows.mask.get(i);
  CHECK(mlp->count_targets(8, 2, 50, 0.3) == static_cast<std::int64_t>(counted));
}

TEST_CASE("heads of a layer that do not fit are refused by name") {
  const auto code = [](const HeadOptions& heads, const char* name = "llama") {
    ModelOptions options = small_model(name);
    options.layers = {{.heads = heads}, {}};
    return code_of_model(options);
  };
  CHECK(code({.num_attention_heads = 6, .head_dim = 4}) == "none");
  CHECK(code({.num_attention_heads = 3}) == "E0623");
  CHECK(code({.rotary_dim = 3}) == "E0627");
  CHECK(code({.rotary_dim = 4}) == "E0627");
  CHECK(code({.head_dim = -2}) == "E0648");
  CHECK(code({.value_head_dim = 3, .keys_are_values = true}) == "E0648");
  CHECK(code({.head_dim = 4}, "latent llama") == "E0648");
  CHECK(code({.head_dim = 4}, "gpt2") == "E0648");
  ModelOptions gated = small_model("llama");
  gated.attention_head_gate = gated.attention_output_gate = true;
  CHECK(code_of_model(gated) == "E0629");
}

TEST_CASE("sizes that do not fit together are refused by name") {
  ModelOptions options = small_model("llama");
  CHECK(code_of_model(options) == "none");
  options.num_attention_heads = 3;
  CHECK(code_of_model(options) == "E0622");
  options = small_model("llama");
  options.num_query_groups = 3;
  CHECK(code_of_model(options) == "E0623");
  // Two heads of keys and values go to as many ranks each, or one to all; fused ones do not.
  options = small_model("llama");
  options.num_attention_heads = options.hidden_size = 12;
  options.head_dim = 2;
  for (const int t : {1, 2, 3, 4, 6, 12}) {
    options.tensor_parallel = t;
    CHECK(code_of_model(options) == (t == 3 ? "E0632" : "none"));
  }
  options = small_model("untied gpt2");
  options.num_query_groups = 2;
  options.tensor_parallel = 4;
  CHECK(code_of_model(options) == "E0632");
  options = small_model("llama");
  options.num_attention_heads = 8;
  CHECK(code_of_model(options) == "E0627");
  options = small_model("gpt2");
  options.seq_len = 8;
  CHECK(code_of_model(options) == "E0626");
  options.seq_len = 0;
  CHECK(code_of_model(options) == "E0621");
  options = small_model("mlp");
  options.dtype = DType::fp8_e4m3;
  CHECK(code_of_model(options) == "E0624");
  options = small_model("llama");
  options.integer_valued = true;
  CHECK(code_of_model(options) == "E0628");
  options.family = "lama";
  CHECK(code_of_model(options) == "E0625");
}
