#include "gossip.hpp"

#include <shardsim/catch2.hpp>
#include <shardsim/rapidcheck.hpp>

using shardsim::FailsWith;
using shardsim::Passes;

namespace {

shardsim::CheckReport checked(const Gossip& gossip, int workers) {
  return check(gossip_program(gossip), gossip_options(gossip, workers));
}

}  // namespace

TEST_CASE("gossip on a ring is what its sequential program is, and sends what the formula says") {
  const int workers = GENERATE(1, 2, 3, 4, 5);
  CHECK_THAT(checked({}, workers), Passes());
}

TEST_CASE("a model of any size does") {
  CHECK(rc::check([] {
    Gossip gossip;
    gossip.weights = *rc::gen::inRange<std::int64_t>(1, 9);
    gossip.samples = *rc::gen::inRange<std::int64_t>(1, 5);
    const int workers = *shardsim::gen::rank_counts(4);
    const shardsim::CheckReport report = checked(gossip, workers);
    if (!report.passed()) RC_FAIL(report.to_text());
  }));
}

TEST_CASE("an exchange outside a batch is found, though small messages pass") {
  CHECK_THAT(checked({.bug = Bug::unbatched}, 4),
             FailsWith("BUFFER_HAZARD").on({0, 1, 2, 3}).at("gossip.cpp").in("exchange"));
}

TEST_CASE("a mean with the wrong weights is found where the weights are shown") {
  CHECK_THAT(checked({.bug = Bug::third}, 4),
             FailsWith("STATE_DIFF").on({0, 1, 2, 3}).at("gossip.cpp").in("train"));
}
