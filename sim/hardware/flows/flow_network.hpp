#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/flows/contention.hpp"
#include "sim/hardware/flows/end_queue.hpp"
#include "sim/hardware/flows/fair_rates.hpp"
#include "sim/hardware/flows/flow_demand.hpp"
#include "sim/hardware/flows/flow_tables.hpp"

// Flows that share links, max-min fair: all rates rise together; a flow stops at its cap, or where
// one of its links is full. The network knows links and flows, and no rank. Whoever drives it asks
// for the next event, lets time go there, and starts flows at that time or later.
//
// Rates are integers, progress is an exact product, and an end is rounded once, to the nearest
// picosecond. The fair rates are the only ones of their kind (fair_rates.hpp), so results do not
// depend on the order of links, flows or calls within one instant.
namespace shardsim {

struct FlowOptions {
  /// The other solvers are references for tests: they give the same rates, and take longer.
  RateSolver solver = RateSolver::growing;
  /// Whether a flow that fits on all its links gets its cap without a solve.
  bool fits_check = true;
  /// Into how many owners delays are split; 0: delays are not charged to anybody.
  std::uint32_t num_owners = 0;
};

/// A flow that has ended.
struct EndedFlow {
  FlowId id{};
  /// How much later than alone.
  Time delay;
};

/// A link's counts up to the last event.
struct LinkTotals {
  /// Payload of the flows that have ended.
  Int128 bytes = 0;
  /// Its load summed over time, in rate units times picoseconds.
  Int128 busy = 0;
  /// Its highest load.
  FlowRate peak = 0;
  /// How long it was the bottleneck of a flow.
  Time full;
};

/// A flow that is under way, for tests and diagnoses.
struct FlowView {
  FlowId id{};
  FlowRate rate = 0;
  /// The full link that holds it below its cap, the lowest of several; kNoLink at its cap.
  LinkId bottleneck = kNoLink;
};

class FlowNetwork {
 public:
  explicit FlowNetwork(FlowOptions options = {});
  FlowNetwork(const FlowNetwork&) = delete;
  FlowNetwork& operator=(const FlowNetwork&) = delete;

  /// REQUIRES: 0 <= capacity; 0 is a link that is down.
  LinkId add_link(std::string name, FlowRate capacity);
  /// From `at` on the link has that capacity. The lowest of several changes at one time holds.
  /// Throws UsageError (E0323) for a time that has passed.
  void change_capacity(LinkId link, Time at, FlowRate capacity);

  /// Starts a flow at `at`, or later by its latency. A flow without work ends right then. Throws
  /// UsageError (E0323) for a time that has passed, or a demand that breaks a requirement, and
  /// LimitError (E0322) for more connections than a link counts.
  void start(FlowId id, Time at, const FlowDemand& demand);

  /// The time of the next event: an end, a change, the end of a latency. None without flows, or
  /// when they are stalled. Solves what the last instant left, so ask only when nobody starts
  /// flows at now() any more. Throws LimitError: E0321 where a share is below one rate unit, E0301
  /// where the next end lies beyond the clock.
  [[nodiscard]] std::optional<Time> next();
  /// Lets time go to `at`. There, ends come first, then changes, then starts. Adds the
  /// flows that end to `ended`, by rising id. REQUIRES: now() <= at, and at <= next() if any.
  void advance(Time at, std::vector<EndedFlow>& ended);
  [[nodiscard]] Time now() const { return tables_.now; }

  /// Whether flows are under way, all of them stand still, and nothing will change that.
  [[nodiscard]] bool stalled();
  /// Names of the links that hold stalled flows, in the order of links.
  [[nodiscard]] std::vector<std::string> stalled_links();
  /// Flows that use links now, by rising id.
  [[nodiscard]] std::vector<FlowView> flows();

  [[nodiscard]] std::uint32_t num_links() const;
  [[nodiscard]] const std::string& name(LinkId link) const { return tables_.links[link].name; }
  [[nodiscard]] LinkTotals totals(LinkId link);
  /// The delays of flows that have ended, by who slowed whom.
  [[nodiscard]] const Contention& contention() const { return contention_; }
  /// Instants that needed a solve, and rates found in them.
  [[nodiscard]] std::int64_t num_solves() const { return num_solves_; }
  [[nodiscard]] std::int64_t num_rated() const { return num_rated_; }

 private:
  // A flow whose latency runs. It is in no link's list.
  struct Waiting {
    std::int64_t at;
    FlowSlot slot;
    bool operator>(const Waiting& other) const {
      return at != other.at ? at > other.at : slot > other.slot;
    }
  };
  struct Change {
    std::int64_t at;
    LinkId link;
    FlowRate capacity;
    bool operator>(const Change& other) const { return at > other.at; }
  };

  void require(const FlowDemand& demand);
  [[nodiscard]] FlowSlot new_slot();
  void begin(FlowSlot slot);
  void solve();
  [[nodiscard]] bool take_if_it_fits(FlowSlot slot);
  void take_over();
  void set_rate(FlowSlot slot, FlowRate rate);
  void hold(FlowState& flow, LinkId bottleneck);
  void end(FlowSlot slot, std::vector<EndedFlow>& ended);
  [[nodiscard]] Time delay_of(const FlowState& flow) const;
  void leave(const FlowState& flow, const FlowCrossing& crossing);
  void apply(const Change& change);

  FlowOptions options_;
  FlowTables tables_;
  Contention contention_;
  FairRates rates_;
  EndQueue ends_;
  std::vector<FlowSlot> free_slots_;
  std::vector<Waiting> waiting_;       // A heap.
  std::vector<Change> changes_;        // A heap.
  std::vector<FlowSlot> begun_;        // At this instant; they have no rate yet.
  std::vector<LinkId> changed_links_;  // By ends; they may let flows rise.
  std::vector<LinkId> resized_links_;  // All their flows are rated again.
  std::uint32_t num_flows_ = 0;        // Waiting, or under way.
  std::int64_t num_solves_ = 0;
  std::int64_t num_rated_ = 0;
};

}  // namespace shardsim
