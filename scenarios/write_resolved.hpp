#pragma once

#include <string>

#include "scenarios/field.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// The scenario as JSON with every field written out, in the order of the field table: defaults
/// filled in, presets merged, "auto" replaced. One fixed text per scenario; loading it gives the
/// same scenario again (origins of numbers are kept beside it, in Scenario::sources).
std::string write_resolved(const Scenario& scenario);

/// Whether a field has a meaning in this scenario. Other fields would be refused, or confuse, when
/// they are read back.
bool is_meaningful(const Field& field, const Scenario& scenario);

}  // namespace shardsim
