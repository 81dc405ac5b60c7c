#pragma once

#include <string>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

// The page that people are sent: report.html.
namespace shardsim {

/// One file that needs nothing else: script, style and data are in it, it asks for nothing from
/// anywhere (its Content-Security-Policy forbids it), and opens from disk. Without a script it is
/// whole but for the movable charts: tables, and plain figures in their place, which are those of
/// paper, too. Equal input gives equal bytes. Parts without facts are left out. No text of the
/// input is ever markup.
///
/// Throws Error (internal) if `result.scenario_json` is not one JSON object.
[[nodiscard]] std::string to_html(const Result& result, const TextHeadline& headline,
                                  const RunDetail& detail);

}  // namespace shardsim
