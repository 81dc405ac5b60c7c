#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/attention_mask.hpp"
#include "strategies/model/make_model.hpp"

#include "scenarios/enumerations.hpp"

#include "tests/scenarios/support.hpp"

// model.layers: what a list means, how it agrees with num_layers, and what is refused.
namespace shardsim::testing {
namespace {

// valid_text() with this list in place of its number of layers.
std::string with_layers(const std::string& layers) {
  std::string text = valid_text();
  const std::string key = "\"num_layers\": ";
  const std::size_t begin = text.find(key);
  REQUIRE(begin != std::string::npos);
  return text.replace(begin, text.find(',', begin) - begin, layers);
}

// "E0242 /model/num_layers" of the only problem.
std::string layer_refusal(const std::string& layers) {
  const Problem problem = only_problem_of(with_layers(layers));
  CHECK_FALSE(problem.help.empty());
  return problem.code + " " + problem.pointer;
}

}  // namespace

TEST_CASE("a list of layers says how many there are, and an object stands for its repeats") {
  const ModelSpec model =
      loaded(with_layers(R"("layers": [{"attention": "sliding", "window_size": 3, "repeats": 5},
                                       {"rotary": false, "sinks": true}])"))
          .model;
  CHECK(model.num_layers == 6);
  CHECK(model.layer(4).window_size == 3);
  CHECK(model.layer(4).attention == AttentionReach::sliding);
  CHECK(model.layer(5).attention == AttentionReach::causal);
  CHECK(model.layer(5).sinks);
  CHECK_FALSE(model.layer(5).rotary);
}

TEST_CASE("a cycle of layers starts again, also where it does not come out even") {
  const ModelSpec model = loaded(with_layers(R"("num_layers": 8, "layers_cycle": true,
        "layers": [{"attention": "chunked", "chunk_size": 4, "repeats": 2}, {}])"))
                              .model;
  std::string kinds;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    kinds += model.layer(i).attention == AttentionReach::chunked ? 'c' : 'f';
  }
  CHECK(kinds == "ccfccfcc");
}

TEST_CASE("lists of layers that do not fit are refused at their place") {
  CHECK(layer_refusal(R"("num_layers": 3, "layers": [{}, {}])") == "E0242 /model/num_layers");
  CHECK(layer_refusal(R"("num_layers": 1, "layers": [{}, {}])") == "E0242 /model/num_layers");
  CHECK(layer_refusal(R"("num_layers": 2, "layers_cycle": true, "layers": [{"repeats": 3}])") ==
        "E0242 /model/num_layers");
  CHECK(layer_refusal(R"("layers_cycle": true, "layers": [{}])") == "E0242 /model/layers_cycle");
  CHECK(layer_refusal(R"("num_layers": 2, "layers_cycle": true)") == "E0242 /model/layers_cycle");
  CHECK(layer_refusal(R"("layers": [{}, {"attention": "sliding"}])") == "E0241 /model/layers/1");
  CHECK(layer_refusal(R"("layers": [{"window_size": 4}])") == "E0241 /model/layers/0/window_size");
  CHECK(
      layer_refusal(R"("layers": [{"attention": "chunked", "chunk_size": 4, "window_size": 4}])") ==
      "E0241 /model/layers/0/window_size");
  CHECK(layer_refusal(R"("layers": [{"feed_forward": "experts"}])") ==
        "E0241 /model/layers/0/feed_forward");
  CHECK(layer_refusal(R"("num_experts": 4, "first_dense_layers": 1,
                          "layers": [{}, {"feed_forward": "experts"}])") ==
        "E0242 /model/layers/1/feed_forward");
  CHECK(layer_refusal(R"("num_experts": 4, "layers": [{"feed_forward": "dense"}])") ==
        "E0201 /model/layers");
  CHECK(loaded(with_layers(R"("num_layers": 2, "layers_cycle": true, "layers": [{}, {}])"))
            .model.num_layers == 2);
}

TEST_CASE("a layer's own heads stand beside the model's, and its values are as wide as its keys") {
  const ModelSpec model = loaded(with_layers(R"("head_dim": 6, "value_head_dim": 5,
        "rotary_dim": 4, "layers": [{}, {"num_attention_heads": 8},
        {"num_query_groups": 4, "head_dim": 8}, {"keys_are_values": true},
        {"head_dim": 8, "value_head_dim": 3, "rotary_dim": 2}])"))
                              .model;
  const auto heads = [&](std::int64_t layer) { return model.heads_of(model.layer(layer)); };
  CHECK(heads(0) == HeadOptions{4, 2, 6, 5, 4});
  CHECK(heads(1) == HeadOptions{8, 2, 6, 5, 4});
  CHECK(heads(2) == HeadOptions{4, 4, 8, 8, 8});
  CHECK(heads(3) == HeadOptions{4, 2, 6, 6, 4, true});
  CHECK(heads(4) == HeadOptions{4, 2, 8, 3, 2});
  CHECK(model.kinds_of_heads().size() == 5);
}

TEST_CASE("heads of layers that do not fit are refused at their place") {
  CHECK(layer_refusal(R"("layers": [{"num_query_groups": 3}])") ==
        "E0241 /model/layers/0/num_query_groups");
  CHECK(layer_refusal(R"("layers": [{}, {"num_attention_heads": 5}])") == "E0241 /model/layers/1");
  CHECK(layer_refusal(R"("layers": [{"rotary_dim": 3}])") == "E0241 /model/layers/0/rotary_dim");
  CHECK(layer_refusal(R"("layers": [{"rotary_dim": 8}])") == "E0241 /model/layers/0/rotary_dim");
  CHECK(layer_refusal(R"("layers": [{"keys_are_values": true, "value_head_dim": 5}])") ==
        "E0241 /model/layers/0/value_head_dim");
  CHECK(layer_refusal(R"("layers": [{}, {"mixer": "none", "head_dim": 8}])") ==
        "E0241 /model/layers/1/head_dim");
  CHECK(layer_refusal(R"("num_layers": 2, "attention_output_gate": true,
                          "attention_head_gate": true)") == "E0201 /model/attention_head_gate");
  const Problem split = only_problem_of(
      with_layers(R"("layers": [{}, {"num_attention_heads": 6, "num_query_groups": 3}])"),
      {"parallelism.tp=2"});
  CHECK(split.code == "E0203");
  CHECK(split.message.find("3 key and value heads of the layers at model.layers[1]") !=
        std::string::npos);
  CHECK(split.help == "use a tp that divides them, or a multiple of them");
}

TEST_CASE("a list says which layers have experts, and counts them") {
  const ModelSpec model = loaded(with_layers(R"("num_layers": 5, "layers_cycle": true,
        "num_experts": 4, "moe_ffn_hidden_size": 16,
        "layers": [{"feed_forward": "dense"}, {"feed_forward": "experts"}])"))
                              .model;
  std::string kinds;
  for (std::int64_t i = 0; i < model.num_layers; ++i) kinds += model.has_experts(i) ? 'e' : 'd';
  CHECK(kinds == "deded");
  CHECK(model.layers_with_experts() == 2);
  const ModelSpec first = loaded(with_layers(R"("num_layers": 5, "num_experts": 4,
        "moe_ffn_hidden_size": 16, "first_dense_layers": 3)"))
                              .model;
  CHECK(first.layers_with_experts() == 2);
  CHECK_FALSE(first.has_experts(2));
  CHECK(first.has_experts(3));
}

}  // namespace shardsim::testing
