#pragma once

#include <memory>
#include <vector>

#include "backends/program/program.hpp"

#include "sim/experiment/experiment.hpp"

// The programs of ranks, found out in two ways that have nothing but the strategies in common.
namespace shardsim::test {

/// The program of each of these ranks, recorded without the others, and as it is seen in a run of
/// all ranks by what stands between strategies and fibers. All have the same tables.
struct BothPrograms {
  std::vector<RankProgram> recorded;
  std::vector<RankProgram> run;
};
[[nodiscard]] BothPrograms both_programs(const Experiment& experiment);

}  // namespace shardsim::test
