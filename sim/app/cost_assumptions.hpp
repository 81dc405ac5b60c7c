#pragma once

#include <vector>

#include "reports/result.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

using Assumptions = std::vector<Assumption>;

void append_assumptions(Assumptions& assumptions, const Assumptions& more);

/// Whether operations are priced by the sizes of their kernels, else by a roofline.
[[nodiscard]] bool prices_shapes(const Scenario& scenario);

/// What an operation costs on the device and the host, and every constant that says so.
[[nodiscard]] Assumptions price_of_computing(const Scenario& scenario);

/// What it costs more while a rank communicates.
[[nodiscard]] Assumption beside_communication(const Scenario& scenario);

}  // namespace shardsim
