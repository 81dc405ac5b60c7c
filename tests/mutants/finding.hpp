#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/run/run.hpp"

#include "tests/mutants/faulty_communicator.hpp"

// The oracle's finding on a mutant must name the step, the rank, a tensor and the factor by which
// it is off.
namespace shardsim::test {

using Names = std::vector<std::string>;

/// Scenarios of data parallelism on eight ranks, of scenarios/verify-*.json.
extern const Names kDdp;
extern const Names kZero12;
extern const Names kHsdp;
extern const Names kFullySharded;  ///< Weights, too: ZeRO-3 and hybrid.
extern const Names kSharded;       ///< All but DDP.
extern const Names kAll;

/// Two steps are enough for all bugs here, and stale values need the second. Fields that `changes`
/// sets ("training.num_microbatches=2") are not the file's.
[[nodiscard]] Scenario scenario_of(const std::string& name, int steps = 2,
                                   const std::vector<std::string>& changes = {});

struct Finding {
  int step = -1;
  int rank = -1;
  std::string kind;
  std::string tensor;
  double factor = 0.0;
};

/// Counts a mutant that the oracle is to find, and takes its sentence apart. Fails the test unless
/// the oracle has found it, and if a part of the sentence is missing.
[[nodiscard]] Finding found_in(const Scenario& scenario, const Result& result);

/// Runs a scenario with the faults, which must be found.
[[nodiscard]] Finding found(const Scenario& scenario, const Faults& faults);
[[nodiscard]] Finding found(const std::string& name, const Faults& faults);

}  // namespace shardsim::test
