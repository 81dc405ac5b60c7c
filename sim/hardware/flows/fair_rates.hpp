#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/hardware/flows/flow_tables.hpp"

// The fair rates, and how to find them after a change without looking at everything.
//
// Definition, in integers: the level rises unit by unit from 0. At a level, flows with that cap
// freeze first. Then each link that cannot give one more unit to all its flows that are not frozen
// freezes these; links do so at once, which keeps ties free of an order. A flow over a link that is
// down has a cap of 0. A flow of weight k counts as k flows in each of these sums, so it gets the
// same rate. Progressive filling jumps from one such level to the next.
//
// Local test: an open flow is below its cap. Rates are the fair ones if and only if
// (1) no link has more load than capacity,
// (2) each open flow has a full link, on which no rate is higher than its own. Full: less is left
//     than one unit for each open flow of the highest rate,
// (3) no link would have stopped at a lower level: for each rate q of an open flow on the link that
//     is not the highest there, q for flows frozen by then and q + 1 for the others fits.
// Proof by induction over levels: (2) makes flows that have rate q freeze at q in the definition,
// and (3) those that freeze at q there have rate q. (3) only bites where rates are a few units
// apart.
namespace shardsim {

enum class RateSolver {
  growing,    ///< Grows a region from what changed until the local test holds around it.
  component,  ///< Rates all flows that are joined by links to what changed.
  whole,      ///< Rates all flows.
};

class FairRates {
 public:
  FairRates(FlowTables& tables, RateSolver solver) : tables_(tables), solver_(solver) {}

  /// A solve: name what has changed, then rate(), then take over.
  void begin();
  /// A flow that is rated anew whatever its neighbours do.
  void add(FlowSlot slot);
  /// A link whose spare has changed.
  void touch(LinkId link);
  /// Finds FlowState::level for the flows of region(), and LinkState::room, full and top for
  /// touched(). Throws LimitError (E0321) where a link that is up has less than one unit for a
  /// flow.
  void rate();

  [[nodiscard]] const std::vector<FlowSlot>& region() const { return region_; }
  [[nodiscard]] const std::vector<LinkId>& touched() const { return touched_; }
  [[nodiscard]] bool inside(const FlowState& flow) const { return flow.region == number_; }
  /// Its rate after the solve.
  [[nodiscard]] FlowRate rate_after(const FlowState& flow) const {
    return inside(flow) ? flow.level : flow.rate;
  }
  /// The lowest full link on which the flow has the highest rate; kNoLink if there is none.
  [[nodiscard]] LinkId bottleneck_of(const FlowState& flow) const;

 private:
  using Stop = std::pair<FlowRate, LinkId>;  // A link's share when it was last looked at.
  // Rates on a link. `second`: the highest of an open flow below `top`.
  struct Profile {
    FlowRate top = 0;
    FlowRate second = -1;
    std::int64_t at_top = 0;
    std::int64_t open_at_top = 0;
  };

  void add_everything();
  void add_component();
  void fill();
  void order_by_ceiling();
  void start_link(LinkId id);
  [[nodiscard]] bool settle_first_stop();
  void stop_links(FlowRate level);
  void freeze(FlowState& flow, FlowRate level);
  [[nodiscard]] bool grow();
  void look_at(LinkId id);
  [[nodiscard]] Profile profile_of(const LinkState& link) const;
  [[nodiscard]] FlowRate stops_below(const LinkState& link, const Profile& profile);
  void add_faster(const LinkState& link, FlowRate than);
  void add_unheld(LinkId id);
  void refuse_empty_shares() const;

  FlowTables& tables_;
  RateSolver solver_;
  std::uint64_t number_ = 0;  // This solve's.
  std::vector<FlowSlot> region_;
  std::vector<LinkId> touched_;
  std::vector<FlowSlot> by_ceiling_;
  std::size_t num_frozen_ = 0;
  std::vector<Stop> stops_;  // A heap; a share only grows while flows freeze.
  std::vector<LinkId> stopping_;
  std::vector<std::pair<FlowRate, std::int64_t>> open_rates_;
};

}  // namespace shardsim
