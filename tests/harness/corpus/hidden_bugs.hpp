#pragma once

#include <vector>

#include "sim/harness/check.hpp"

// Programs whose bugs need few events in one order, deep in a run: they measure how well exploring
// works.
namespace shardsim::corpus {

struct HiddenBug {
  const char* name;
  Program program;
  int ranks;
  const char* code;
  int depth = 2;  ///< Events that have to be in one order.
};
[[nodiscard]] std::vector<HiddenBug> hidden_bugs();

/// The same in longer runs: 50 calls of 8 ranks at depth 2, and 25 calls of 4 ranks at depth 3.
[[nodiscard]] std::vector<HiddenBug> deeper_bugs();

/// 3 ranks, each of which sends 6 messages and takes 6 from whomever they come. No bug.
void twelve_operations(RankContext& context);

}  // namespace shardsim::corpus
