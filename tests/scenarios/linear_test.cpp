#include <string>

#include <catch2/catch.hpp>

#include "strategies/model/layer_options.hpp"

#include "scenarios/linear_spec.hpp"

#include "tests/scenarios/support.hpp"

// Layers of gated DeltaNet and Mamba-2, and layers of one branch: counts, and what is refused.
namespace shardsim::testing {
namespace {

constexpr const char* kDelta = R"("linear_num_key_heads": 4, "linear_num_value_heads": 8,
  "linear_key_head_dim": 4, "linear_value_head_dim": 4)";
constexpr const char* kMamba = R"("mamba_num_heads": 8, "mamba_head_dim": 4,
  "mamba_num_groups": 4, "mamba_state_size": 4)";

// valid_text() with these fields in place of its number of layers.
std::string with_fields(const std::string& fields) {
  std::string text = valid_text();
  const std::string key = "\"num_layers\": ";
  const std::size_t begin = text.find(key);
  REQUIRE(begin != std::string::npos);
  return text.replace(begin, text.find(',', begin) - begin, fields);
}

std::string linear_refusal(const std::string& fields) {
  const Problem problem = only_problem_of(with_fields(fields));
  CHECK_FALSE(problem.help.empty());
  return problem.code + " " + problem.pointer;
}

std::string delta_layers(const std::string& fields) {
  return R"("layers": [{"mixer": "delta_net"}, {}], )" + fields;
}

std::string mamba_layers(const std::string& fields) {
  return R"("layers": [{"mixer": "mamba"}, {}], )" + fields;
}

}  // namespace

TEST_CASE("mixers and feed-forwards are counted layer by layer") {
  const ModelSpec model = loaded(with_fields(std::string(R"("num_layers": 5, "layers_cycle": true,
        "layers": [{"mixer": "mamba", "feed_forward": "none"}, {"mixer": "none"},
                   {"feed_forward": "none"}], )") +
                                             kMamba))
                              .model;
  CHECK(model.layers_mixed_by(Mixer::mamba) == 2);
  CHECK(model.layers_mixed_by(Mixer::none) == 2);
  CHECK(model.layers_mixed_by(Mixer::attention) == 1);
  CHECK(model.layers_with_dense() == 2);
}

TEST_CASE("the layers one by one are those of the list") {
  const ModelSpec model = loaded(with_fields(std::string(R"("num_layers": 7, "layers_cycle": true,
        "layers": [{"mixer": "mamba", "repeats": 2}, {"sinks": true, "feed_forward": "dense"}], )") +
                                             kMamba))
                              .model;
  const std::vector<LayerSpec> layers = model.each_layer();
  REQUIRE(layers.size() == 7);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    CHECK(layers[i].mixer == (i % 3 == 2 ? Mixer::attention : Mixer::mamba));
    CHECK(layers[i].mixer == model.layer(index).mixer);
    CHECK(layers[i].sinks == model.layer(index).sinks);
    CHECK(layers[i].feed_forward == FeedForward::dense);
    CHECK(layers[i].repeats == 1);
  }
}

TEST_CASE("the width of a dense MLP is needed where a block has one") {
  const auto without_width = [](const std::string& fields) {
    std::string text = with_fields(fields);
    const std::size_t begin = text.find("\"ffn_hidden_size\"");
    return text.erase(begin, text.find(',', begin) + 1 - begin);
  };
  const std::string branch = R"("layers": [{"feed_forward": "none"}, {"feed_forward": "none"}])";
  const Scenario alone = loaded(without_width(branch));
  CHECK(alone.model.ffn_hidden_size == 0);
  CHECK(write_resolved(alone).find("ffn_hidden_size") == std::string::npos);
  CHECK(num_parameters(alone.model) < num_parameters(loaded(with_fields(branch)).model) + 1);
  const Problem dense = only_problem_of(without_width(
      R"("layers": [{"feed_forward": "none"}, {"mixer": "none", "feed_forward": "dense"}])"));
  CHECK(dense.code + " " + dense.pointer == "E0103 /model/ffn_hidden_size");
  const std::string experts = R"("num_layers": 2, "num_experts": 2, "num_experts_per_token": 2)";
  const Problem width = only_problem_of(without_width(experts));
  CHECK(width.code + " " + width.pointer == "E0103 /model/moe_ffn_hidden_size");
  const Scenario wide = loaded(without_width(experts + R"(, "moe_ffn_hidden_size": 24)"));
  CHECK(wide.model.moe_ffn_hidden_size == 24);
}

TEST_CASE("parameters of recurrences are those of published models") {
  ModelSpec next;  // Qwen3-Next: 36 of 48 layers.
  next.hidden_size = 2048;
  next.delta_net = {.key_heads = 16, .value_heads = 32, .key_size = 128, .value_size = 128};
  CHECK(delta_net_parameters(next) == 2048 * (12288 + 64) + 4 * 8192 + 64 + 128 + 4096 * 2048);
  ModelSpec nano;  // Nemotron 3 Nano: 23 layers.
  nano.hidden_size = 2688;
  nano.mamba = {.num_heads = 64, .head_size = 64, .num_groups = 8, .state_size = 128};
  CHECK(mamba_parameters(nano) == 2688 * 10304 + 5 * 6144 + 3 * 64 + 4096 + 4096 * 2688);
}

TEST_CASE("layers without attention that do not fit are refused at their place") {
  CHECK(linear_refusal(R"("layers": [{"mixer": "none", "feed_forward": "none"}, {}])") ==
        "E0241 /model/layers/0/mixer");
  CHECK(linear_refusal(R"("layers": [{"mixer": "none", "sinks": true}])") ==
        "E0241 /model/layers/0/sinks");
  CHECK(linear_refusal(R"("layers": [{"mixer": "none", "rotary": false}])") ==
        "E0241 /model/layers/0/rotary");
  CHECK(linear_refusal(delta_layers(R"("linear_num_key_heads": 4, "linear_num_value_heads": 8,
                                       "linear_key_head_dim": 4)")) ==
        "E0201 /model/linear_value_head_dim");
  CHECK(linear_refusal(delta_layers(R"("linear_num_key_heads": 3, "linear_num_value_heads": 8,
                                       "linear_key_head_dim": 4, "linear_value_head_dim": 4)")) ==
        "E0201 /model/linear_num_key_heads");
  CHECK(linear_refusal(mamba_layers(R"("mamba_num_heads": 8, "mamba_head_dim": 4)")) ==
        "E0201 /model/mamba_state_size");
  CHECK(linear_refusal(mamba_layers(R"("mamba_num_heads": 8, "mamba_head_dim": 4,
                                       "mamba_num_groups": 3, "mamba_state_size": 4)")) ==
        "E0201 /model/mamba_num_groups");
}

TEST_CASE("degrees that do not divide heads of recurrences do not fit") {
  ModelSpec m = loaded(with_fields(delta_layers(kDelta))).model;
  CHECK(divides_mixers(m, 2, 2));
  CHECK_FALSE(divides_mixers(m, 8, 1));  // 4 key heads.
  CHECK_FALSE(divides_mixers(m, 2, 4));
  m = loaded(with_fields(mamba_layers(kMamba))).model;
  CHECK(divides_mixers(m, 2, 4));  // Two groups for four ranks: copies.
  CHECK_FALSE(divides_mixers(m, 8, 1));
  CHECK_FALSE(divides_mixers(m, 1, 3));
}

}  // namespace shardsim::testing
