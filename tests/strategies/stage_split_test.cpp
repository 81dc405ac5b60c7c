#include "strategies/pipeline/stage_split.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
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

namespace {

// The cost of a split: compared lexicographically, less is better. Ranks and stages follow the
// schedule.
Layers cost_of(const Layers& layers, const StageSplit& split) {
  PipelineSchedule places;
  places.shape = {split.num_ranks, static_cast<int>(layers.size()) / split.num_ranks, 1};
  places.placement = split.placement;
  const int last = places.num_stages() - 1;
  Layers counted = layers;
  if (split.account_for_embedding) ++counted.front();
  if (split.account_for_loss) ++counted.back();
  Layers ranks(static_cast<std::size_t>(split.num_ranks), 0);
  for (int stage = 0; stage <= last; ++stage) {
    ranks.at(static_cast<std::size_t>(places.rank_of(stage))) +=
        counted[static_cast<std::size_t>(stage)];
  }
  const std::int64_t most = *std::max_element(ranks.begin(), ranks.end());
  const auto empty = std::count(layers.begin(), layers.end(), 0);
  const auto head = static_cast<std::size_t>(places.rank_of(last));
  std::int64_t of_head = 0;
  if (!split.account_for_loss) of_head = std::exchange(ranks[head], 0);
  std::int64_t squares = 0;
  for (const std::int64_t rank : ranks) squares += rank * rank;
  Layers cost = {most, empty, of_head, squares};
  cost.insert(cost.end(), ranks.begin(), ranks.end());
  return cost;
}

// Every way to distribute the remainder over stages, one layer each.
void for_each_even_split(std::int64_t layers, std::int64_t stages, const StageSplit& split,
                         const std::function<void(const Layers&)>& visit) {
  const std::int64_t counted =
      layers + (split.account_for_embedding ? 1 : 0) + (split.account_for_loss ? 1 : 0);
  Layers extra(static_cast<std::size_t>(stages), 0);
  std::fill(extra.end() - static_cast<std::ptrdiff_t>(counted % stages), extra.end(), 1);
  do {
    Layers way = extra;
    for (std::int64_t& stage : way) stage += counted / stages;
    if (split.account_for_embedding) --way.front();
    if (split.account_for_loss) --way.back();
    visit(way);
  } while (std::next_permutation(extra.begin(), extra.end()));
}

}  // namespace

TEST_CASE("over chunks the remainder goes where it costs least, of all ways there are") {
  for (const Placement placement : {Placement::loop, Placement::v}) {
    for (const auto& [ranks, chunks] : {std::pair{2, 2}, {3, 2}, {4, 2}, {5, 2}, {2, 3}, {3, 4}}) {
      if (placement == Placement::v && chunks != 2) continue;
      for (int ends = 0; ends < 4; ++ends) {
        const StageSplit split{.layers = {},
                               .account_for_embedding = ends % 2 == 1,
                               .account_for_loss = ends / 2 == 1,
                               .num_ranks = ranks,
                               .placement = placement};
        const std::int64_t stages = ranks * chunks;
        for (std::int64_t layers = stages; layers < 3 * stages; ++layers) {
          INFO(layers << " layers, " << ranks << " x " << chunks << ", ends " << ends << ", "
                      << (placement == Placement::v ? "v" : "loop"));
          const Layers found = even_stage_layers(layers, stages, split);
          REQUIRE(std::accumulate(found.begin(), found.end(), std::int64_t{0}) == layers);
          Layers least = cost_of(found, split);
          const Layers own = least;
          bool is_one = false;
          for_each_even_split(layers, stages, split, [&](const Layers& way) {
            is_one |= way == found;
            least = std::min(least, cost_of(way, split));
          });
          REQUIRE(is_one);
          REQUIRE(own == least);
          // No split at all has a smaller largest rank.
          const std::int64_t counted = layers + ends % 2 + ends / 2;
          REQUIRE(own.front() == (counted + ranks - 1) / ranks);
        }
      }
    }
  }
}

TEST_CASE("a rank that has more layers has them in its last chunks, the head's in its first") {
  const StageSplit v{.num_ranks = 4, .placement = Placement::v};
  const StageSplit loop{.num_ranks = 4};
  // Stages 0 and 7 are rank 0's, with embedding and head.
  CHECK(even_stage_layers(10, 8, v) == Layers{1, 1, 1, 1, 2, 2, 1, 1});
  CHECK(even_stage_layers(14, 8, v) == Layers{1, 2, 2, 2, 2, 2, 2, 1});
  CHECK(even_stage_layers(15, 8, v) == Layers{2, 2, 2, 2, 2, 2, 2, 1});
  // Stages 3 and 7 are rank 3's, with the head.
  CHECK(even_stage_layers(10, 8, loop) == Layers{1, 1, 1, 1, 1, 2, 2, 1});
  CHECK(even_stage_layers(14, 8, loop) == Layers{2, 2, 2, 1, 2, 2, 2, 1});
  CHECK(even_stage_layers(15, 8, loop) == Layers{2, 2, 2, 2, 2, 2, 2, 1});
  // DeepSeek-V3's layers on sixteen ranks: the head's rank has two, another three, fourteen four.
  const Layers deep = even_stage_layers(61, 32, {.num_ranks = 16, .placement = Placement::v});
  CHECK(deep.front() + deep.back() == 2);
  CHECK(std::count(deep.begin(), deep.end(), 1) == 3);
  // Embedding and head that count as layers empty no stage if another can have one less.
  const Layers counted = even_stage_layers(
      61, 32,
      {.layers = {}, .account_for_embedding = true, .account_for_loss = true, .num_ranks = 16});
  CHECK(std::count(counted.begin(), counted.end(), 0) == 0);
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
