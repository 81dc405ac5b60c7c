#pragma once

#include <string>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"
#include "sim/app/band/measured_error.hpp"

namespace shardsim {

[[nodiscard]] RunSetting run_setting_of(const Scenario& scenario);

/// Why predictions of this scenario cannot be held against measurements, in one sentence without a
/// full stop: nothing that was measured is predicted in the same way. Empty if they can.
[[nodiscard]] std::string why_no_band(const Scenario& scenario);

/// Bands about the step time and the memory on the device, from errors that the program was built
/// with, or why there are none. Nothing if the result has no step time.
void add_error_bands(const Scenario& scenario, Result& result);

}  // namespace shardsim
