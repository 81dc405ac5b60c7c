#pragma once

#include <vector>

#include "sim/harness/check.hpp"

// Programs whose bugs need two events in one order, deep in a run: what exploring is measured by.
namespace shardsim::corpus {

struct HiddenBug {
  const char* name;
  Program program;
  int ranks;
  const char* code;
};
[[nodiscard]] std::vector<HiddenBug> hidden_bugs();

/// 3 ranks, each of which sends 6 messages and takes 6 from whomever they come. No bug.
void twelve_operations(RankContext& context);

}  // namespace shardsim::corpus
