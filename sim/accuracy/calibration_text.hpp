#pragma once

#include <string>

#include "sim/accuracy/calibration_report.hpp"

namespace shardsim {

/// Tables, notes, errors with and without the corrections, and how to use these.
[[nodiscard]] std::string calibration_text(const CalibrationReport& report);

/// The value of system.nccl, with comments that say where it comes from.
[[nodiscard]] std::string overlay_text(const CalibrationReport& report);

}  // namespace shardsim
