#pragma once

#include <string>

#include "scenarios/field.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// The scenario as JSON with every field written out, in the order of the field table: defaults
/// filled in, presets merged, "auto" replaced. One fixed text per scenario; loading it gives the
/// same scenario again (origins of numbers are kept beside it, in Scenario::sources).
std::string write_resolved(const Scenario& scenario);

/// Whether a field says something about this scenario's model. What does not would not be accepted,
/// or would only be a riddle, when it is read back.
bool is_meaningful(const Field& field, const Scenario& scenario);

}  // namespace shardsim
