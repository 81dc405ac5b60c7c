#pragma once

#include "reports/comparison_page.hpp"
#include "reports/pages.hpp"
#include "reports/question_page.hpp"

// Pages with plain figures for a browser: as full as real ones are.
namespace shardsim::samples {

/// Ten ranked layouts with bands, days, cost and flags, a front of twelve, and 150 others.
[[nodiscard]] LayoutPage search_of_layouts();

/// Four sides with all their parts; the last is a measurement.
[[nodiscard]] ComparisonPage four_sides();

/// Six machines, of which two hold and one has no layout.
[[nodiscard]] QuestionPage six_machines();

}  // namespace shardsim::samples
