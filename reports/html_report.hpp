#pragma once

#include <string>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

// The page to send to people: report.html.
namespace shardsim {

/// One file that opens from disk and contains script, style and data. It requests nothing from
/// anywhere: its Content-Security-Policy forbids it. Without a script only the movable charts are
/// missing: tables and the plain figures of the printed page replace them. Equal input gives equal
/// bytes. Parts without facts are left out. No text of the input is ever markup.
///
/// Throws Error (internal) if `result.scenario_json` is not one JSON object.
[[nodiscard]] std::string to_html(const Result& result, const TextHeadline& headline,
                                  const RunDetail& detail);

}  // namespace shardsim
