#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/load.hpp"

// The layouts of P47 with experts: all (dp, tp, pp, cp, ep) of a number of ranks.
namespace shardsim::test {

using Overrides = std::vector<std::string>;

struct ExpertLayout {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;
  int etp = 1;

  /// Ranks of a stage, over which experts are shared.
  [[nodiscard]] int sharing() const { return dp * tp * cp; }
  [[nodiscard]] int ranks() const { return sharing() * pp; }
};

/// Every layout of up to `most_ranks` ranks whose ep x etp divides the ranks of a stage; etp is 1
/// unless `cuts_experts`.
[[nodiscard]] inline std::vector<ExpertLayout> expert_layouts(int most_ranks,
                                                              bool cuts_experts = false) {
  std::vector<ExpertLayout> found;
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    for (int tp = 1; tp <= ranks; ++tp) {
      for (int pp = 1; tp * pp <= ranks; ++pp) {
        for (int cp = 1; tp * pp * cp <= ranks; ++cp) {
          if (ranks % (tp * pp * cp) != 0) continue;
          ExpertLayout layout{.dp = ranks / (tp * pp * cp), .tp = tp, .pp = pp, .cp = cp};
          for (layout.ep = 1; layout.ep <= layout.sharing(); ++layout.ep) {
            if (layout.sharing() % layout.ep != 0) continue;
            const int most = cuts_experts ? layout.sharing() / layout.ep : 1;
            for (layout.etp = 1; layout.etp <= most; ++layout.etp) {
              if (layout.sharing() / layout.ep % layout.etp == 0) found.push_back(layout);
            }
          }
        }
      }
    }
  }
  return found;
}

[[nodiscard]] inline std::string describe(const ExpertLayout& l) {
  return "dp " + std::to_string(l.dp) + ", tp " + std::to_string(l.tp) + ", pp " +
         std::to_string(l.pp) + ", cp " + std::to_string(l.cp) + ", ep " + std::to_string(l.ep) +
         (l.etp > 1 ? ", etp " + std::to_string(l.etp) : "");
}

/// Options that go round with a layout's number. Their cycles have lengths without a common factor,
/// so that all pairs of them meet.
template <std::size_t N>
[[nodiscard]] const char* turn(const std::array<const char*, N>& values, int number) {
  return values.at(static_cast<std::size_t>(number) % N);
}

/// The scenario with sizes that the layouts of a test divide, and then with `overrides`.
[[nodiscard]] inline Scenario load_evenly(const char* file, Overrides sizes,
                                          const Overrides& overrides) {
  sizes.insert(sizes.end(), overrides.begin(), overrides.end());
  return load_scenario(file, sizes);
}

[[nodiscard]] inline std::string set(const char* field, std::int64_t value) {
  return std::string(field) + "=" + std::to_string(value);
}

[[nodiscard]] inline std::string choose(const char* field, const char* value) {
  return std::string(field) + "=" + value;
}

/// The layout itself, on one node, with a microbatch per data-parallel rank, two per stage under a
/// pipeline, for one step.
[[nodiscard]] inline Overrides layout_overrides(const ExpertLayout& l) {
  Overrides overrides = {
      set("system.nodes", 1),
      set("system.gpus_per_node", l.ranks()),
      set("parallelism.dp_shard", l.dp),
      set("parallelism.tp", l.tp),
      set("parallelism.pp", l.pp),
      set("parallelism.cp", l.cp),
      set("parallelism.ep", l.ep),
      set("parallelism.etp", l.etp),
      set("training.global_batch_size", l.dp * (l.pp > 1 ? 2 * l.pp : 1)),
      set("training.micro_batch_size", 1),
      set("execution.steps", 1),
      choose("parallelism.sequence_parallel", l.tp > 1 ? "true" : "false"),
  };
  return overrides;
}

/// Stage of ZeRO, recomputation and schedule of layout `number`. `has_room`: there are layers for
/// two chunks on each pipeline rank.
[[nodiscard]] inline Overrides turning_overrides(const ExpertLayout& l, int number, bool has_room) {
  constexpr std::array kZero = {"0", "1", "2", "3"};
  constexpr std::array kRecompute = {"none", "selective", "full", "none", "full"};
  constexpr std::array kSchedules = {"1f1b",       "zb_v",       "gpipe", "zb_h1",
                                     "dualpipe_v", "looped_bfs", "zb_h2", "v_half",
                                     "v_min",      "1f1b",       "zb_v"};
  constexpr std::array kOneChunk = {"1f1b", "gpipe", "zb_h1"};
  Overrides overrides = {choose("parallelism.zero_stage", turn(kZero, number)),
                         choose("training.recompute", turn(kRecompute, number))};
  if (l.pp > 1) {
    overrides.push_back(choose("parallelism.schedule",
                               has_room ? turn(kSchedules, number) : turn(kOneChunk, number)));
  }
  return overrides;
}

}  // namespace shardsim::test
