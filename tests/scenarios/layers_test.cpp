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
