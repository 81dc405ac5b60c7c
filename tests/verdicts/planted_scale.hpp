#pragma once

#include <string>

#include "scenarios/scenario.hpp"

// How small an error the oracle finds: everything of one kind that ranks have is multiplied by one
// factor, on all ranks alike, so that only one device on the whole batch tells.
namespace shardsim::test {

struct PlantedScale {
  /// "gradient", "parameter", "loss", "master", or a state of the optimizer ("exp_avg").
  std::string kind;
  double factor = 1.0;
  /// Of this parameter alone; -1: of all. REQUIRES: all, for "loss" and "master", and where tensor
  /// or pipeline parallelism cuts the model.
  int parameter = -1;
};

struct ScaleVerdict {
  bool found = false;
  /// The oracle's sentence.
  std::string detail;
};

/// Trains `scenario`, whose ranks have the error, and asks the oracle. A master is scaled by the
/// optimizer, so that weights are its rounding, as they are to be.
[[nodiscard]] ScaleVerdict verdict_on(const Scenario& scenario, const PlantedScale& planted);

/// The largest k of 1 to 60 for which 1 + 2^-k is found in that kind; 0: not even twice of it.
/// REQUIRES: `scenario` passes without an error.
[[nodiscard]] int most_bits_found(const Scenario& scenario, const std::string& kind,
                                  int parameter = -1);

}  // namespace shardsim::test
