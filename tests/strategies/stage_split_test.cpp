#include "strategies/pipeline/stage_split.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/model_fixture.hpp"

// Which modules a stage runs.
namespace shardsim::test {

namespace {

using Layers = std::vector<std::int64_t>;

std::unique_ptr<Model> model_of(const char* family, std::int64_t num_layers) {
  ModelOptions options = small_model(family);
  options.num_layers = num_layers;
  return make_model(options);
}

// First module and number of modules, stage by stage.
std::vector<std::pair<int, int>> modules(const Model& model, int num_stages,
                                         const StageSplit& split = {}) {
  std::vector<std::pair<int, int>> found;
  for (const ModuleRange& stage : split_modules(model, num_stages, split)) {
    found.emplace_back(stage.first, stage.count);
  }
  return found;
}

using Modules = std::vector<std::pair<int, int>>;

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.code() + ": " + error.what();
  }
  return "none";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("layers are divided evenly; the embedding rides with the first, the head with the last") {
  // GPT-3: 96 blocks on 8 stages are 12 each, whatever is around them.
  CHECK(even_stage_layers(96, 8, {}) == Layers(8, 12));
  CHECK(even_stage_layers(7, 3, {}) == Layers{3, 2, 2});
  CHECK(even_stage_layers(5, 5, {}) == Layers(5, 1));
  // As with --account-for-embedding-in-pipeline-split and its twin: 94 + 2 on 8 are 12 each.
  const StageSplit both{.layers = {}, .account_for_embedding = true, .account_for_loss = true};
  CHECK(even_stage_layers(94, 8, both) == Layers{11, 12, 12, 12, 12, 12, 12, 11});
  CHECK(even_stage_layers(2, 4, both) == Layers{0, 1, 1, 0});
  CHECK(even_stage_layers(3, 1, both) == Layers{3});

  CHECK(modules(*model_of("gpt2", 7), 3) == Modules{{0, 4}, {4, 2}, {6, 3}});
  CHECK(modules(*model_of("gpt2", 7), 1) == Modules{{0, 9}});
  CHECK(modules(*model_of("gpt2", 2), 4, both) == Modules{{0, 1}, {1, 1}, {2, 1}, {3, 1}});
  // A perceptron has no embedding; its output layer is the head.
  CHECK(modules(*model_of("mlp", 4), 2) == Modules{{0, 2}, {2, 3}});
  CHECK(modules(*model_of("mlp", 3), 2, {.layers = {}, .account_for_loss = true}) ==
        Modules{{0, 2}, {2, 2}});
}

TEST_CASE("P42: any even split has all layers, and stages differ by one at most") {
  for (std::int64_t layers = 1; layers <= 20; ++layers) {
    for (const bool embedding : {false, true}) {
      for (const bool loss : {false, true}) {
        const StageSplit split{{}, embedding, loss};
        const std::int64_t counted = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
        for (std::int64_t stages = 1; stages <= counted; ++stages) {
          INFO(layers << " layers, " << stages << " stages, " << embedding << loss);
          Layers found = even_stage_layers(layers, stages, split);
          REQUIRE(std::accumulate(found.begin(), found.end(), std::int64_t{0}) == layers);
          if (embedding) ++found.front();
          if (loss) ++found.back();
          // In falling order, and the last has one less at most.
          REQUIRE(std::is_sorted(found.rbegin(), found.rend()));
          REQUIRE(found.front() - found.back() <= 1);
          REQUIRE(found.back() >= 1);
        }
      }
    }
  }
}

TEST_CASE("a list says the layers of each stage") {
  const auto gpt = model_of("gpt2", 6);
  CHECK(modules(*gpt, 4, {.layers = {1, 3, 2, 0}}) == Modules{{0, 2}, {2, 3}, {5, 2}, {7, 1}});
  CHECK(modules(*gpt, 3, {.layers = {0, 6, 0}}) == Modules{{0, 1}, {1, 6}, {7, 1}});
  CHECK(modules(*model_of("mlp", 3), 2, {.layers = {3, 0}}) == Modules{{0, 3}, {3, 1}});
}

TEST_CASE("what cannot be cut is refused by name") {
  const auto gpt = model_of("gpt2", 6);
  const auto mlp = model_of("mlp", 3);
  const auto why = [](const Model& model, int num_stages, const StageSplit& split) {
    return refusal([&] { (void)split_modules(model, num_stages, split); });
  };
  CHECK(has(why(*gpt, 7, {}), "E0711: 7 pipeline stages, but the model has only 6 layers"));
  CHECK(why(*gpt, 7, {.layers = {}, .account_for_loss = true}) == "none");
  CHECK(has(why(*gpt, 9, {{}, true, true}), "only 8 layers"));
  CHECK(has(why(*mlp, 2, {{}, true, false}), "E0711: this model has no embedding"));
  CHECK(has(why(*gpt, 2, {.layers = {2, 2, 2}}), "E0712: layers of 3 stages"));
  CHECK(has(why(*gpt, 2, {.layers = {3, 2}}), "E0712: the stages have 5 layers in all"));
  CHECK(has(why(*gpt, 2, {.layers = {6, 6}}), "E0712: the stages have 12 layers in all"));
  CHECK(has(why(*gpt, 3, {.layers = {3, 0, 3}}), "E0712: stage 1 cannot have 0 of 6"));
  CHECK(has(why(*gpt, 3, {.layers = {7, -1, 0}}), "E0712: stage 0 cannot have 7 of 6"));
  CHECK(has(why(*mlp, 2, {.layers = {0, 3}}), "E0712: stage 0 cannot have 0 of 3"));
}

}  // namespace shardsim::test
