#include <string>

#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Gemma 4 and MiMo-V2 from files of Hugging Face: layers with heads of their own.
namespace shardsim::test {

namespace {

// The refusal of a published file with one piece of its text replaced.
std::string refusal_of_changed(const std::string& name, const std::string& old,
                               const std::string& text) {
  const TemporaryFolder folder;
  std::string file = content_of(kData + name + ".config.json");
  const std::size_t at = file.find(old);
  REQUIRE(at != std::string::npos);
  write(folder / "config.json", file.replace(at, old.size(), text));
  const Printed printed = shardsim({"import", "hf", folder / "config.json"});
  CHECK(printed.exit_code == 2);
  return printed.err;
}

}  // namespace

TEST_CASE("Gemma 4 31B has wide layers whose keys are values", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "gemma-4-31b.config.json"});
  const ModelSpec& model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(num_parameters(model) == 30'697'345'280);
  CHECK(contains(imported.printed.err, "30697345280 parameters"));
  CHECK(model.value_norm);
  CHECK_FALSE(model.norm_zero_centred);
  CHECK(model.attention_scale == 1.0);
  CHECK(model.final_logit_cap == 30.0);
  CHECK(model.query_key_norm == QueryKeyNorm::per_head);
  CHECK(model.layer(0).window_size == 1024);
  CHECK(model.layer(0).rope_theta == 1e4);
  CHECK(model.rope_theta == 1e6);
  CHECK(model.layer(0).heads == HeadOptions{});
  CHECK(model.rotary_dim == 256);
  CHECK(model.layer(5).window_size == 0);
  CHECK(model.heads_of(model.layer(5)) == HeadOptions{.num_attention_heads = 32,
                                                      .num_query_groups = 4,
                                                      .head_dim = 512,
                                                      .value_head_dim = 512,
                                                      .rotary_dim = 128,
                                                      .keys_are_values = true});
  CHECK(model.layers_cycle);
  CHECK(contains(imported.printed.err, "angles of another scale than here, which cost nothing"));
}

TEST_CASE("MiMo-V2-Flash has more keys, sinks and another base in windows", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "mimo-v2-flash.config.json"});
  const ModelSpec& model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(contains(imported.printed.err, "308778780864 parameters"));
  CHECK(num_parameters(model) == 308'778'780'864 - 47 * 256);
  CHECK(model.value_head_dim == 128);
  CHECK(model.rotary_dim == 64);
  CHECK(model.value_scale == 0.707);
  CHECK(model.first_dense_layers == 1);
  CHECK_FALSE(model.layer(0).sinks);
  CHECK(model.layer(0).window_size == 0);
  CHECK(model.layer(1).sinks);
  CHECK(model.layer(1).window_size == 128);
  CHECK(model.layer(1).rope_theta == 1e4);
  CHECK(model.layer(1).heads == HeadOptions{.num_query_groups = 8});
  std::int64_t windowed = 0;
  model.visit_layers([&](const LayerSpec& layer) { windowed += layer.window_size > 0 ? 1 : 0; });
  CHECK(windowed == 39);
}

TEST_CASE("What heads of layers cannot be here is refused by name", "[exchange]") {
  CHECK(contains(refusal_of_changed("gemma-4-31b", R"("hidden_size_per_layer_input": 0)",
                                    R"("hidden_size_per_layer_input": 256)"),
                 "hidden_size_per_layer_input 256: embeddings for each layer"));
  CHECK(contains(refusal_of_changed("gemma-4-31b", R"("hidden_size_per_layer_input": 0,)", ""),
                 "hidden_size_per_layer_input, which is not there"));
  CHECK(contains(refusal_of_changed("gemma-4-31b", R"("num_kv_shared_layers": 0)",
                                    R"("num_kv_shared_layers": 2)"),
                 "layers that share keys and values"));
  CHECK(contains(refusal_of_changed("gemma-4-31b", R"("use_bidirectional_attention": "vision")",
                                    R"("use_bidirectional_attention": "all")"),
                 "attention to later positions"));
  CHECK(contains(refusal_of_changed("mimo-v2-flash", R"("attention_chunk_size": 128)",
                                    R"("attention_chunk_size": 64)"),
                 "attention_chunk_size 64 beside sliding_window 128"));
  CHECK(contains(refusal_of_changed("mimo-v2-flash", "hybrid_layer_pattern", "some_pattern"),
                 "hybrid_layer_pattern, which is not there"));
}

}  // namespace shardsim::test
