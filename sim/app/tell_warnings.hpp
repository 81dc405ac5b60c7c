#pragma once

#include <iosfwd>

#include "scenarios/scenario.hpp"

namespace shardsim {

/// "warning: ..." a line each, for verbs that print no summary. They name what users wrote.
void tell_warnings(const Scenario& scenario, std::ostream& err);

}  // namespace shardsim
