#pragma once

// Faults of the machine: parts that are slower than the rest always or now and then, and failures
// that stop the training. Nothing is assumed that the scenario does not say.

#include <cstdint>
#include <string>
#include <vector>

namespace shardsim {

/// In a place of a fault: not chosen.
inline constexpr std::int64_t kNotChosen = -1;

/// Ranks that compute `slowdown` times as long. Exactly one of rank, stage and node chooses them.
struct StragglerSpec {
  std::int64_t rank = kNotChosen;
  std::int64_t stage = kNotChosen;  // Pipeline stage: a coordinate on the axis pp.
  std::int64_t node = kNotChosen;
  double slowdown = 1;
};

/// The links of a fault: those of a tier, on one node or on all.
struct LinkPlaceSpec {
  std::int64_t node = kNotChosen;
  std::string tier = "inter_node";  // or "intra_node"

  bool is_inside() const { return tier == "intra_node"; }
};

struct SlowLinkSpec {
  LinkPlaceSpec place;
  double bandwidth_factor = 1;
  double added_latency_us = 0;
};

/// Links that are down for `down_s` of every `period_s`, at first `phase_s` after the start.
struct FlappingLinkSpec {
  LinkPlaceSpec place;
  double down_s = 0;
  double period_s = 0;
  double phase_s = 0;
};

struct FaultSpec {
  std::vector<StragglerSpec> stragglers;
  std::vector<SlowLinkSpec> slow_links;
  std::vector<FlappingLinkSpec> flapping_links;

  // Failures that stop the training, which goes on from the last checkpoint. 0: none.
  double gpu_mtbf_hours = 0;
  double node_mtbf_hours = 0;
  std::int64_t observed_failures = 0;  // failures behind the figures above; 0: not known
  double checkpoint_interval_s = 0;    // of training between two checkpoints; 0: Daly's optimum
  double checkpoint_write_s = 0;       // 0: by checkpoint_gb_per_s
  double checkpoint_gb_per_s = 0;
  double detection_s = 0;
  double restart_s = 0;

  bool slows_steps() const {
    return !stragglers.empty() || !slow_links.empty() || !flapping_links.empty();
  }
  bool has_failures() const { return gpu_mtbf_hours > 0 || node_mtbf_hours > 0; }
};

}  // namespace shardsim
