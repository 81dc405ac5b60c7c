#pragma once

#include "sim/harness/check.hpp"

// Reports as `check` makes them, for tests of what matchers make of them.
namespace shardsim::test {

/// DEADLOCK: rank 2 in line 41 of src/ring.hpp, the others in line 52.
inline CheckReport sample_failure() {
  Diagnosis diagnosis;
  diagnosis.code = "DEADLOCK";
  diagnosis.summary = "nobody can go on";
  diagnosis.sides = {{{2}, "send fp64 x 8", {"src/ring.hpp", 41, "exchange"}},
                     {{0, 1, 3}, "finished", {"src/ring.hpp", 52, "train"}}};
  diagnosis.hint = "post both at once";
  CheckReport report;
  report.failure = diagnosis;
  return report;
}

}  // namespace shardsim::test
