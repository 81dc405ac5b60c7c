#pragma once

#include <string>

#include "reports/result.hpp"

// The result as JSON: what `--json` prints and what `result.json` holds. reports/schema/
// result.schema.json describes it.
namespace shardsim {

/// Equal results give equal bytes: keys stand in a fixed order (metrics in that of
/// `metric_names()`, others after them as they come), numbers have the digits that read back to
/// the same double, and a value that is no number (NaN, infinity) is written as null because JSON
/// has no word for it. The text is ASCII: control characters and anything beyond are escaped, so
/// that no terminal acts on a name; bytes that are not UTF-8 become U+FFFD. Ends in a newline.
///
/// Throws Error (internal) if `scenario_json` is not one JSON object.
[[nodiscard]] std::string to_json(const Result& result);

}  // namespace shardsim
