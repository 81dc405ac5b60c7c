#pragma once

#include <string>

#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// Why predictions of this experiment cannot be compared with measurements, in one sentence without
/// a full stop. It names the field whose value no measured run has. Empty if they can.
[[nodiscard]] std::string why_no_band(const Experiment& experiment);

}  // namespace shardsim
