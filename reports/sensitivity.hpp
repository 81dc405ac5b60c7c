#pragma once

#include <string>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

// The step with one quantity changed, for the terminal and for programs. A page has it as a chart.
namespace shardsim {

/// Bars in pairs, less and more: one table of at most 100 columns, then the notes.
[[nodiscard]] std::string sensitivity_text(const Result& result, const TextHeadline& headline,
                                           const RunDetail& detail);

/// One object: the run itself, and `bars` with the overrides of each, times in seconds.
[[nodiscard]] std::string sensitivity_json(const Result& result, const RunDetail& detail);

/// "+8.1 %", "-6.5 %", "0.0 %".
[[nodiscard]] std::string change_words(double change);

}  // namespace shardsim
