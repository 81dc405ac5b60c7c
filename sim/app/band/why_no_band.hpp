#pragma once

#include <string>

#include "scenarios/scenario.hpp"

namespace shardsim {

/// Why predictions of this scenario cannot be held against measurements, in one sentence without a
/// full stop, which names the field: nothing that was measured is predicted in the same way. Empty
/// if they can.
[[nodiscard]] std::string why_no_band(const Scenario& scenario);

}  // namespace shardsim
