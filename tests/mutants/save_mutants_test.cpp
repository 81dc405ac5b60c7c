#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/mutants/score.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// P56 for checkpoints: rank 0, which alone commits, makes one collective call more than the others
// while it saves.
namespace shardsim::test {
namespace {

/// Where rank 0 makes the call.
enum class Moment { before_agreement, before_reports, after_commit };

Faults rank_0_calls_once_more(Moment moment) {
  const auto num_agreements = std::make_shared<int>(0);  // Agreements of rank 0.
  const auto call = [](const Caller& caller) {
    caller.to.barrier({.label = "rank 0 alone"}).wait();
  };
  Faults faults;
  faults.all_reduce = [=](const Caller& caller, const Tensor& buffer, ReduceOp op,
                          const CallOptions& options, CallSite site) {
    const bool bent = caller.world_rank == 0 && std::string("checkpoint status") == options.label;
    if (!bent) return caller.to.all_reduce(buffer, op, options, site);
    const bool is_last = ++*num_agreements == 2;  // On what was written, and on the commit.
    if (!is_last && moment == Moment::before_agreement) call(caller);
    Work agreement = caller.to.all_reduce(buffer, op, options, site);
    if (!is_last || moment != Moment::after_commit) return agreement;
    agreement.wait();
    call(caller);
    return Work();
  };
  faults.all_gather = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          const CallOptions& options, CallSite site) {
    const bool bent = caller.world_rank == 0 && std::string("checkpoint report") == options.label;
    if (bent && moment == Moment::before_reports) call(caller);
    return caller.to.all_gather(output, input, options, site);
  };
  return faults;
}

/// Trains, saves with the faults, and trains on for so many steps.
std::optional<Diagnosis> diagnosis_of_save(const std::string& strategy, const Faults& faults,
                                           int steps_after) {
  const Setup setup = setup_of(strategy, 4);
  MemoryFileSystem disk;
  FiberWorld world(world_of(setup));
  const auto wrap = plant(faults);
  try {
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const std::unique_ptr<Communicator> bent = wrap(everyone);
      const std::unique_ptr<ShardedOptimizer> optimizer = make(setup, runtime, *bent);
      optimizer->step();
      optimizer->save_model(disk, "/run");
      for (int step = 0; step < steps_after; ++step) optimizer->step();
    });
  } catch (const CommunicationError& error) {
    return error.diagnosis();
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("P56: a collective that rank 0 alone calls within a save is found, and rank 0 named") {
  struct Case {
    Moment moment;
    int steps_after;
    Detector found_by;
  };
  const Case cases[] = {
      {Moment::before_agreement, 0, Detector::mismatch},
      {Moment::before_reports, 0, Detector::mismatch},
      // The others have made all their calls of the world: they end, or train on in other groups.
      {Moment::after_commit, 0, Detector::absence},
      {Moment::after_commit, 1, Detector::deadlock},
  };
  for (const char* strategy : {"ddp", "zero2", "fsdp"}) {
    REQUIRE_FALSE(diagnosis_of_save(strategy, {}, 1));
    for (const Case& c : cases) {
      const auto found =
          diagnosis_of_save(strategy, rank_0_calls_once_more(c.moment), c.steps_after);
      INFO(strategy << ", moment " << static_cast<int>(c.moment));
      count_mutant(c.found_by, found ? finder_in(*found) : Detector::nobody);
      REQUIRE(found);
      INFO(found->to_text());
      const auto side =
          std::find_if(found->sides.begin(), found->sides.end(),
                       [](const DiagnosisSide& of) { return of.ranks == std::vector<int>{0}; });
      REQUIRE(side != found->sides.end());
      CHECK(side->action.find("rank 0 alone") != std::string::npos);
    }
  }
}

}  // namespace shardsim::test
