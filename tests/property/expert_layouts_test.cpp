#include "tests/property/expert_layouts.hpp"

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

#include "tests/sample.hpp"

// P47 with experts: every layout of up to 32 ranks, with every ep that divides the ranks of a
// stage, trains the model of one device, or is refused by name.
namespace shardsim::test {
namespace {

constexpr const char* kLayoutsBase = "scenarios/verify-llama-ep4-uniform.json";
constexpr int kMostExpertRanks = 32;
constexpr int kExperts = 24;
constexpr int kExpertModelHeads = 4;
constexpr int kExpertWidth = 4;
constexpr int kLayers = 8;
constexpr int kPositions = 24;

constexpr std::array<std::string_view, 3> kRefusals = {"E0203", "E0206", "E0213"};

// Whether the model's sizes allow the layout; there is none whose ep does not divide a stage's
// ranks.
bool is_legal_layout(const ExpertLayout& l) {
  const bool cuts_samples = l.cp == 1 || kPositions % (2 * l.cp) == 0;
  return kExpertModelHeads % l.tp == 0 && l.pp <= kLayers && cuts_samples &&
         kPositions / l.cp % l.tp == 0 && kExperts % l.ep == 0 && kExpertWidth % l.etp == 0;
}

Overrides overrides_of(const ExpertLayout& l, int number) {
  constexpr std::array kRouting = {"uniform", "learned", "skewed"};
  constexpr std::array kCapacity = {"0", "0", "0.8", "0", "1.5", "0", "0"};
  // Two chunks per rank, and a layer for each, where that is no more than what is legal.
  const bool has_room = 2 * l.pp <= kLayers;
  Overrides overrides = layout_overrides(l);
  for (const std::string& more : {
           set("model.num_layers", has_room ? 2 * l.pp : std::min(l.pp, kLayers)),
           set("model.num_experts", kExperts),
           set("model.num_query_groups", kExpertModelHeads),
           set("model.seq_len", kPositions),
           set("model.moe_ffn_hidden_size", kExpertWidth),
           choose("model.moe_routing", turn(kRouting, number)),
           choose("model.moe_capacity_factor", turn(kCapacity, number)),
       }) {
    overrides.push_back(more);
  }
  for (const std::string& more : turning_overrides(l, number, has_room)) overrides.push_back(more);
  return overrides;
}

// The layout is refused for the model's sizes, and for nothing else.
void expect_refusal(const ExpertLayout& layout) {
  try {
    (void)load_scenario(kLayoutsBase, overrides_of(layout, 0));
    FAIL_CHECK("not refused");
  } catch (const ScenarioError& error) {
    for (const Problem& problem : error.problems()) {
      INFO(problem.code << " " << problem.message);
      CHECK(std::count(kRefusals.begin(), kRefusals.end(), problem.code) == 1);
    }
  }
}

}  // namespace

TEST_CASE("P47: experts train as one device under every layout of up to 32 ranks") {
  int run_count = 0;
  int refused_count = 0;
  int done_count = 0;
  for (const ExpertLayout& layout : expert_layouts(kMostExpertRanks)) {
    INFO(describe(layout));
    if (!is_legal_layout(layout)) {
      ++refused_count;
      expect_refusal(layout);
      continue;
    }
    const int number = run_count++;
    // All of them take minutes, most of which go to those above 16 ranks.
    const bool is_large = layout.ranks() > 16;
    if (!in_sample(describe(layout), is_large ? 48 : 6)) continue;
    const Scenario scenario = load_scenario(kLayoutsBase, overrides_of(layout, number));
    ++done_count;
    INFO("schedule " << scenario.parallelism.schedule << ", zero "
                     << scenario.parallelism.zero_stage << ", "
                     << to_string(scenario.model.moe_routing));
    const Result result = run_scenario(scenario).result;
    CHECK(result.exit_code == 0);
    CHECK(result.number("oracle.passed") == 1.0);
  }
  std::cout << "P47: of " << run_count << " layouts of (dp, tp, pp, cp) x ep " << done_count
            << " were run, " << refused_count << " others refused\n";
  CHECK(run_count == 1022);
  CHECK(refused_count == 1508);
  // A sample is about a twentieth: a sixth of the small ones.
  CHECK(done_count >= (long_run() ? run_count : run_count / 32));
}

// Each way to cut experts of up to 16 ranks, but those that the case above has.
TEST_CASE("K7: experts in slices train as one device under every layout of up to 16 ranks") {
  int run_count = 0;
  int done_count = 0;
  for (const ExpertLayout& layout : expert_layouts(16, true)) {
    if (layout.etp == 1 || !is_legal_layout(layout)) continue;
    const int number = run_count++;
    INFO(describe(layout));
    if (!in_sample(describe(layout), 12)) continue;
    ++done_count;
    const Scenario scenario = load_scenario(kLayoutsBase, overrides_of(layout, number));
    INFO("schedule " << scenario.parallelism.schedule << ", zero "
                     << scenario.parallelism.zero_stage << ", "
                     << to_string(scenario.model.moe_routing));
    const Result result = run_scenario(scenario).result;
    CHECK(result.exit_code == 0);
    CHECK(result.number("oracle.passed") == 1.0);
  }
  std::cout << "K7: of " << run_count << " layouts with slices of experts " << done_count
            << " were run\n";
  CHECK(run_count == 334);
  CHECK(done_count >= (long_run() ? run_count : run_count / 24));
}

}  // namespace shardsim::test
