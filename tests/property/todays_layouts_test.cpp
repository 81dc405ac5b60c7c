#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/run.hpp"

#include "tests/property/expert_layouts.hpp"
#include "tests/sample.hpp"

// P47 with two models of today: every layout of up to 16 ranks trains the model of one device, or
// is refused by name.
namespace shardsim::test {
namespace {

constexpr int kMostRanksOfToday = 16;
constexpr int kMostStages = 8;  // Each has a layer at least.

// A model's sizes, which decide what is legal.
struct TodaysModel {
  const char* base;
  int heads;
  int positions;
  int experts;
  int exchanged_heads;  // Those that context parallelism exchanges positions for; 0: none.
  bool is_hybrid;
};

// Latent attention, sigmoid router with groups and bias, shared expert, dense first layer, MTP.
constexpr TodaysModel kDeepSeek{.base = "scenarios/verify-llama-deepseek-tp2-pp2-ep2-sp.json",
                                .heads = 4,
                                .positions = 24,
                                .experts = 24,
                                .exchanged_heads = 0,
                                .is_hybrid = false};

// Gated DeltaNet, full and sliding layers, sinks, norms of heads, gate, partial rotary, softmax
// router, tied head.
constexpr TodaysModel kQwenNext{.base = "scenarios/verify-llama-qwen-next-tp2-cp2-ep2-sp.json",
                                .heads = 4,
                                .positions = 24,
                                .experts = 24,
                                .exchanged_heads = 12,
                                .is_hybrid = true};

bool is_sayable(const TodaysModel& model, const ExpertLayout& l) {
  const bool cuts_samples = l.cp == 1 || model.positions % (2 * l.cp) == 0;
  const bool exchanges = l.cp == 1 || model.exchanged_heads % (l.tp * l.cp) == 0;
  return model.heads % l.tp == 0 && l.pp <= kMostStages && cuts_samples && exchanges &&
         model.positions / l.cp % l.tp == 0 && model.experts % l.ep == 0;
}

// The hybrid's kinds of layers, one after the other.
std::string layers_of_hybrid(int count, int number) {
  constexpr std::array kKinds = {R"({"mixer": "delta_net"})", R"({"sinks": true})",
                                 R"({"attention": "sliding", "window_size": 5, "sinks": true,
                                     "num_attention_heads": 8, "keys_are_values": true})"};
  std::string list;
  for (int layer = 0; layer < count; ++layer) {
    list += (layer == 0 ? "" : ", ") + std::string(turn(kKinds, layer + number));
  }
  return "model.layers=[" + list + "]";
}

Overrides overrides_of_today(const TodaysModel& model, const ExpertLayout& l, int number) {
  constexpr std::array kContext = {"ring", "all_gather", "ring"};
  // Two chunks per rank, and a layer for each, where that is no more than what is legal.
  const bool has_room = 2 * l.pp <= kMostStages;
  const int layers = std::clamp(has_room ? 2 * l.pp : l.pp, 3, kMostStages);
  Overrides overrides = layout_overrides(l);
  overrides.push_back(model.is_hybrid ? layers_of_hybrid(layers, number)
                                      : set("model.num_layers", layers));
  overrides.push_back(choose("parallelism.cp_attention", turn(kContext, number)));
  // Key and value heads: as many as heads, or fewer, of which tensor-parallel ranks have copies.
  constexpr std::array<std::int64_t, 3> kGroupsOfToday = {4, 2, 1};
  if (model.is_hybrid) {
    const std::int64_t groups = kGroupsOfToday.at(static_cast<std::size_t>(number / 3) % 3);
    overrides.push_back(set("model.num_query_groups", groups));
  }
  for (const std::string& more : turning_overrides(l, number, has_room)) overrides.push_back(more);
  return overrides;
}

// The layout is refused for the model's sizes, and for nothing else. A stage more than there are
// layers is one of them.
void expect_refusal_of_today(const TodaysModel& model, const ExpertLayout& layout) {
  constexpr std::array<std::string_view, 2> kCodes = {"E0203", "E0206"};
  try {
    (void)load_scenario(model.base, overrides_of_today(model, layout, 0));
    FAIL_CHECK("not refused");
  } catch (const ScenarioError& error) {
    for (const Problem& problem : error.problems()) {
      INFO(problem.code << " " << problem.message);
      CHECK(std::count(kCodes.begin(), kCodes.end(), problem.code) == 1);
    }
  }
}

struct LayoutCounts {
  int passed = 0;
  int refused = 0;
  int trained = 0;  // Those in this sample.
};

LayoutCounts try_all(const TodaysModel& model) {
  LayoutCounts counts;
  for (const ExpertLayout& layout : expert_layouts(kMostRanksOfToday)) {
    INFO(describe(layout));
    if (!is_sayable(model, layout)) {
      ++counts.refused;
      expect_refusal_of_today(model, layout);
      continue;
    }
    const int number = counts.passed++;
    if (!in_sample(describe(layout) + model.base, 9)) continue;
    const Scenario scenario = load_scenario(model.base, overrides_of_today(model, layout, number));
    ++counts.trained;
    INFO("schedule " << scenario.parallelism.schedule << ", zero "
                     << scenario.parallelism.zero_stage);
    const Result result = run_scenario(scenario).result;
    CHECK(result.exit_code == 0);
    CHECK(result.number("oracle.passed") == 1.0);
  }
  std::cout << "P47: " << model.base << ": " << counts.passed << " layouts are legal, "
            << counts.trained << " of them were run, " << counts.refused << " are refused\n";
  // A sample is about a ninth.
  CHECK(counts.trained >= (long_run() ? counts.passed : counts.passed / 18));
  return counts;
}

}  // namespace

TEST_CASE("P47: latent attention, grouped experts and MTP train under every layout of 16 ranks") {
  const LayoutCounts counts = try_all(kDeepSeek);
  CHECK(counts.passed == 391);
  CHECK(counts.refused == 278);
}

TEST_CASE(
    "P47, M15: a hybrid with sinks, gates and experts trains under every layout of 16 ranks") {
  const LayoutCounts counts = try_all(kQwenNext);
  CHECK(counts.passed == 367);
  CHECK(counts.refused == 302);
}

}  // namespace shardsim::test
