#pragma once

#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "scenarios/scenario.hpp"
#include "sim/app/calibrate/calibration.hpp"

namespace shardsim {

/// All there is to print. What it refers to outlives it.
struct CalibrationReport {
  const Cluster& cluster;    ///< Of any of the tables: its name and its NCCL platform are shown.
  const NetworkSpec& given;  ///< As it was before, and where its numbers come from.
  const std::vector<NumberSource>& sources;
  const std::vector<PricedTable>& tables;
  const std::vector<TierCalibration>& tiers;
  FittedParts parts;
  std::string out;  ///< The file that overlay_text() goes to; empty: none.
};

}  // namespace shardsim
