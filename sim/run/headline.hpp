#pragma once

#include "reports/text_summary.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// The experiment in the words of the scenario: for the head of every page.
[[nodiscard]] TextHeadline headline_of(const Experiment& experiment);

}  // namespace shardsim
