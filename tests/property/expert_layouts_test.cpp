#include <algorithm>
#include <array>
#include <cstdint>
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

using Overrides = std::vector<std::string>;

constexpr const char* kLayoutsBase = "scenarios/verify-llama-ep4-uniform.json";
constexpr int kMostExpertRanks = 32;
constexpr int kExperts = 24;
constexpr int kExpertModelHeads = 4;
constexpr int kLayers = 8;
constexpr int kPositions = 24;

constexpr std::array<std::string_view, 3> kRefusals = {"E0203", "E0206", "E0213"};

struct ExpertLayout {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;

  [[nodiscard]] int sharing() const { return dp * tp * cp; }
};

// Whether the model's sizes allow the layout; there is none whose ep does not divide a stage's
// ranks.
bool is_legal_layout(const ExpertLayout& l) {
  const bool cuts_samples = l.cp == 1 || kPositions % (2 * l.cp) == 0;
  return kExpertModelHeads % l.tp == 0 && l.pp <= kLayers && cuts_samples &&
         kPositions / l.cp % l.tp == 0 && kExperts % l.ep == 0;
}

std::vector<ExpertLayout> layouts() {
  std::vector<ExpertLayout> found;
  for (int ranks = 1; ranks <= kMostExpertRanks; ++ranks) {
    for (int tp = 1; tp <= ranks; ++tp) {
      for (int pp = 1; tp * pp <= ranks; ++pp) {
        for (int cp = 1; tp * pp * cp <= ranks; ++cp) {
          if (ranks % (tp * pp * cp) != 0) continue;
          ExpertLayout layout{.dp = ranks / (tp * pp * cp), .tp = tp, .pp = pp, .cp = cp};
          for (layout.ep = 1; layout.ep <= layout.sharing(); ++layout.ep) {
            if (layout.sharing() % layout.ep == 0) found.push_back(layout);
          }
        }
      }
    }
  }
  return found;
}

// The other options of a layout go round with its number. Their cycles have lengths without a
// common factor, so that all pairs of them meet.
template <std::size_t N>
const char* turn(const std::array<const char*, N>& values, int number) {
  return values.at(static_cast<std::size_t>(number) % N);
}

Overrides overrides_of(const ExpertLayout& l, int number) {
  constexpr std::array kRouting = {"uniform", "learned", "skewed"};
  constexpr std::array kZero = {"0", "1", "2", "3"};
  constexpr std::array kRecompute = {"none", "selective", "full", "none", "full"};
  constexpr std::array kCapacity = {"0", "0", "0.8", "0", "1.5", "0", "0"};
  constexpr std::array kSchedules = {"1f1b",       "zb_v",       "gpipe", "zb_h1",
                                     "dualpipe_v", "looped_bfs", "zb_h2", "v_half",
                                     "v_min",      "1f1b",       "zb_v"};
  constexpr std::array kOneChunk = {"1f1b", "gpipe", "zb_h1"};
  const auto set = [](const char* field, auto value) {
    return std::string(field) + "=" + std::to_string(value);
  };
  const auto choose = [](const char* field, const char* value) {
    return std::string(field) + "=" + value;
  };
  // Two chunks per rank, and a layer for each, where that is no more than what is legal.
  const bool has_room = 2 * l.pp <= kLayers;
  Overrides overrides = {
      set("system.nodes", 1),
      set("system.gpus_per_node", l.sharing() * l.pp),
      set("parallelism.dp_shard", l.dp),
      set("parallelism.tp", l.tp),
      set("parallelism.pp", l.pp),
      set("parallelism.cp", l.cp),
      set("parallelism.ep", l.ep),
      set("model.num_layers", has_room ? 2 * l.pp : std::min(l.pp, kLayers)),
      set("model.num_experts", kExperts),
      set("model.num_query_groups", kExpertModelHeads),
      set("model.seq_len", kPositions),
      set("model.moe_ffn_hidden_size", 4),
      set("training.global_batch_size", l.dp * (l.pp > 1 ? 2 * l.pp : 1)),
      set("training.micro_batch_size", 1),
      set("execution.steps", 1),
      choose("model.moe_routing", turn(kRouting, number)),
      choose("parallelism.zero_stage", turn(kZero, number)),
      choose("training.recompute", turn(kRecompute, number)),
      choose("model.moe_capacity_factor", turn(kCapacity, number)),
  };
  if (l.tp > 1) overrides.emplace_back("parallelism.sequence_parallel=true");
  if (l.pp > 1) {
    overrides.push_back(choose("parallelism.schedule",
                               has_room ? turn(kSchedules, number) : turn(kOneChunk, number)));
  }
  return overrides;
}

std::string describe(const ExpertLayout& l) {
  return "dp " + std::to_string(l.dp) + ", tp " + std::to_string(l.tp) + ", pp " +
         std::to_string(l.pp) + ", cp " + std::to_string(l.cp) + ", ep " + std::to_string(l.ep);
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
  for (const ExpertLayout& layout : layouts()) {
    INFO(describe(layout));
    if (!is_legal_layout(layout)) {
      ++refused_count;
      expect_refusal(layout);
      continue;
    }
    const int number = run_count++;
    // All of them take minutes, most of which go to those above 16 ranks.
    const bool is_large = layout.sharing() * layout.pp > 16;
    if (!in_sample(describe(layout), is_large ? 48 : 3)) continue;
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
  // A sample is about a tenth: a third of the small ones.
  CHECK(done_count >= (long_run() ? run_count : run_count / 16));
}

}  // namespace shardsim::test
