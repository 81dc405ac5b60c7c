#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/mutant.hpp"
#include "tests/mutants/score.hpp"

// Bugs of token shards that go round tensor-parallel ranks while products compute with them.
namespace shardsim::test {
namespace {

constexpr const char* kRingScenario = "llama-tp4-dp2-overlap";

using RingOps = std::vector<P2pOp>;

// Changes hops of one label, which are batches of a send and a receive.
template <typename Change>
Faults changed_hops(const std::string& label, const Change& change) {
  Faults faults;
  faults.batch = [=](const Caller& caller, std::span<const P2pOp> operations,
                     const CallOptions& options, CallSite site) -> Work {
    if (options.label != label) return caller.to.batch(operations, options, site);
    const RingOps changed = change(caller.to, RingOps(operations.begin(), operations.end()));
    if (changed.empty()) return {};
    return caller.to.batch(changed, options, site);
  };
  return faults;
}

// The buffer keeps what lay there.
RingOps never_made(const Communicator&, RingOps) { return {}; }

// Shards come from the rank behind.
RingOps other_way(const Communicator&, RingOps hop) {
  std::swap(hop.at(0).peer, hop.at(1).peer);
  return hop;
}

// Rank 0 passes on another shard's first element.
RingOps first_element_lost(const Communicator& ring, RingOps hop) {
  if (ring.rank() == 0) hop.at(0).buffer.set(0, 0.0);
  return hop;
}

}  // namespace

TEST_CASE("K16: token shards that do not come, or come from elsewhere, are found") {
  struct Bug {
    const char* name;
    RingOps (*change)(const Communicator&, RingOps);
  };
  for (const char* label : {"column input", "row output", "row output gradient"}) {
    for (const Bug& bug : std::vector<Bug>{{"a hop that is never made", never_made},
                                           {"the other way round", other_way},
                                           {"an element that is lost", first_element_lost}}) {
      INFO(label << ": " << bug.name);
      const Scenario loaded =
          load_scenario(std::string("scenarios/verify-") + kRingScenario + ".json");
      const Result right = run_scenario(loaded).result;
      REQUIRE(right.exit_code == 0);
      const Result result =
          run_scenario(loaded, {.wrap_world = plant(changed_hops(label, bug.change))}).result;
      count_mutant(Detector::oracle, finder_in(result));
    }
  }
}

}  // namespace shardsim::test
