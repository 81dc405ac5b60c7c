#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/hardware/flows/flow_demand.hpp"

// The state of a flow network, as its parts share it: flows in slots that are used again, and links
// with the flows on them.
namespace shardsim {

using FlowSlot = std::uint32_t;

/// A flow on one of its links.
struct FlowCrossing {
  LinkId link = 0;
  std::uint32_t place = 0;       ///< In the link's list.
  std::int64_t coefficient = 0;  ///< Usage times weight: load per rate, in units of 2^-16.
  std::int64_t usage = 0;        ///< Usage alone.
  std::int64_t bytes = 0;
};

/// A link's side of it.
struct LinkMember {
  FlowSlot slot = 0;
  std::uint32_t crossing = 0;  ///< In the flow's list.
  std::int64_t coefficient = 0;
};

struct FlowState {
  FlowRate rate = 0;
  FlowRate cap = 0;
  FlowRate level = 0;          ///< The rate that the solver tries.
  std::uint64_t region = 0;    ///< The last solve that rated it.
  std::uint32_t num_down = 0;  ///< Links of it with no capacity.
  LinkId bottleneck = kNoLink;
  std::uint32_t version = 0;  ///< Counts ends that were foretold.
  std::uint32_t owner = 0;
  bool open = false;       ///< Whether its rate is below its ceiling; counted in LinkState::open.
  bool frozen = false;     ///< Whether the solver is done with it.
  bool slowed = false;     ///< Whether it has ever gone below its cap.
  bool active = false;     ///< Whether it is in its links' lists.
  std::int64_t since = 0;  ///< When `left` was true, in picoseconds.
  std::int64_t begun = 0;  ///< When its latency was over.
  Int128 left = 0;         ///< Work.
  Int128 work = 0;
  FlowId id{};
  std::vector<FlowCrossing> crossings;  ///< By rising link.

  /// How fast it can be at most, whoever shares its links.
  [[nodiscard]] FlowRate ceiling() const { return num_down > 0 ? 0 : cap; }
};

struct LinkState {
  FlowRate capacity = 0;
  Int128 spare = 0;            ///< The capacity that its flows leave, in 2^-16 rate units.
  std::int64_t open = 0;       ///< Coefficients of the flows that could be faster.
  std::int64_t total = 0;      ///< Coefficients of all its flows.
  std::uint32_t num_held = 0;  ///< Flows whose bottleneck it is.
  /// Whether it has less than one more unit for each of its fastest open flows. False, too, where a
  /// flow has left since that was found.
  bool full = false;
  FlowRate top = 0;  ///< The highest rate on it, where it is full.
  std::vector<LinkMember> members;

  // The solver's.
  std::uint64_t region = 0;  ///< The last solve that touched it.
  Int128 free = 0;           ///< Left by flows outside of the region.
  Int128 room = 0;           ///< Left by these and by frozen flows.
  std::int64_t inside = 0;   ///< Coefficients of the region's flows.
  std::int64_t rising = 0;   ///< Those of them that are not frozen.
  FlowRate level = -1;       ///< The rate at which it stopped flows; -1 where it stopped none.

  // Counts.
  std::int64_t resized_at = -1;    ///< Picoseconds; the last change of its capacity.
  std::int64_t counted_until = 0;  ///< Picoseconds.
  std::int64_t charged_until = 0;  ///< Up to here delays of its flows are charged.
  Int128 busy = 0;
  FlowRate peak = 0;
  std::int64_t full_time = 0;
  Int128 bytes = 0;
  std::string name;
};

struct FlowTables {
  std::vector<FlowState> flows;
  std::vector<LinkState> links;
  Time now;

  /// Adds the load since the last count. Call before `spare`, `capacity` or `num_held` changes.
  void count(LinkState& link) const;
};

/// A link's capacity in the units of its spare.
[[nodiscard]] inline Int128 room_of(FlowRate capacity) { return Int128{capacity} << 16U; }

}  // namespace shardsim
