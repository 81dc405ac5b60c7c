#pragma once

#include <string>

#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// Why predictions of this experiment cannot be held against measurements, in one sentence without
/// a full stop, which names the field: nothing that was measured is predicted in the same way.
/// Empty if they can.
[[nodiscard]] std::string why_no_band(const Experiment& experiment);

}  // namespace shardsim
