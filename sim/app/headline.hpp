#pragma once

#include "reports/text_summary.hpp"
#include "scenarios/scenario.hpp"

namespace shardsim {

/// What was run, in the words of the scenario: for the head of every page.
[[nodiscard]] TextHeadline headline_of(const Scenario& scenario);

}  // namespace shardsim
