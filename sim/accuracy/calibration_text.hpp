#pragma once

#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "scenarios/scenario.hpp"
#include "sim/accuracy/calibration.hpp"

// The texts that a calibration prints and writes.
namespace shardsim {

/// All there is to print. The objects that it refers to outlive it.
struct CalibrationReport {
  const Cluster& cluster;    ///< The cluster of any table: its name and NCCL platform are shown.
  const NetworkSpec& given;  ///< The network before the fit, and the sources of its numbers.
  const std::vector<NumberSource>& sources;
  const std::vector<PricedTable>& tables;
  const std::vector<TierCalibration>& tiers;
  FittedParts parts;
  std::string out;  ///< The file that overlay_text() goes to; empty: none.
};

/// Tables, notes, errors with and without the corrections, and how to use these.
[[nodiscard]] std::string calibration_text(const CalibrationReport& report);

/// The value of system.nccl, with comments that say where it comes from.
[[nodiscard]] std::string overlay_text(const CalibrationReport& report);

}  // namespace shardsim
