#pragma once

#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "sim/app/calibrate/calibration.hpp"

namespace shardsim {

/// All there is to print. What it refers to outlives it.
struct CalibrationReport {
  const Cluster& cluster;  ///< Of any of the tables: its name and its NCCL platform are shown.
  const std::vector<PricedTable>& tables;
  const std::vector<TierCalibration>& tiers;
  std::string out;  ///< The file that overlay_text() goes to; empty: none.
};

/// Tables, notes, errors with and without the corrections, and how to use these.
[[nodiscard]] std::string calibration_text(const CalibrationReport& report);

/// The value of system.nccl, with comments that say where it comes from.
[[nodiscard]] std::string overlay_text(const CalibrationReport& report);

}  // namespace shardsim
