#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/hardware/flows/flow_network.hpp"

// Small drawn scenes in single rate units and picoseconds, where rates, ends and changes often tie,
// and what rounding leaves matters.
namespace shardsim::test {

struct DrawnFlow {
  Time start;
  FlowDemand demand;
};

struct DrawnChange {
  LinkId link;
  Time at;
  FlowRate capacity;
};

struct DrawnFlows {
  std::vector<FlowRate> links;
  std::vector<DrawnFlow> flows;
  std::vector<DrawnChange> changes;
};

inline constexpr std::uint32_t kDrawnOwners = 3;

/// `folded`: a flow has the same weight on all its links.
[[nodiscard]] DrawnFlows draw_flows(std::uint64_t seed, bool folded);

/// Adds links, changes and flows.
void build(const DrawnFlows& scene, FlowNetwork& network);

struct Outcome {
  std::map<std::int64_t, std::int64_t> ends;    ///< Picoseconds, by flow.
  std::map<std::int64_t, std::int64_t> delays;  ///< The same.
  std::vector<Int128> charged;                  ///< Rows of `slowed`, columns of `by`.
  std::vector<LinkTotals> totals;
  std::string stopped;  ///< The error, or the links that stall.

  bool operator==(const Outcome& other) const;
};

/// Runs to the end, to a stall or to an error.
[[nodiscard]] Outcome run(FlowNetwork& network);
[[nodiscard]] Outcome run(const DrawnFlows& scene, FlowOptions options);

/// Rates by the definition alone: the level rises unit by unit. `active`: flows of the scene;
/// `capacities`: of its links. Throws std::runtime_error for a share below one unit.
[[nodiscard]] std::vector<FlowView> rates_by_definition(const DrawnFlows& scene,
                                                        const std::vector<std::int64_t>& active,
                                                        const std::vector<FlowRate>& capacities);

}  // namespace shardsim::test
