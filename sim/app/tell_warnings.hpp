#pragma once

#include <iosfwd>

#include "scenarios/scenario.hpp"

namespace shardsim {

/// Prints "warning: ..." lines for verbs without a summary. Warnings contain words of users.
void tell_warnings(const Scenario& scenario, std::ostream& err);

}  // namespace shardsim
