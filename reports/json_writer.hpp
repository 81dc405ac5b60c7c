#pragma once

#include <string>

#include "reports/result.hpp"

// The result as JSON: what `--json` prints and what `result.json` holds. reports/schema/
// result.schema.json describes it.
namespace shardsim {

/// Equal results give equal bytes. Keys stand in a fixed order: metrics in that of
/// `metric_names()`, others after them as they come. Numbers have the digits that read back to the
/// same double. NaN and infinity become null because JSON has no word for them. The text is ASCII:
/// control and other characters are escaped, so that no terminal acts on a name. Bytes that are not
/// UTF-8 become U+FFFD. Ends in a newline.
///
/// Throws Error (internal) if `scenario_json` is not one JSON object.
[[nodiscard]] std::string to_json(const Result& result);

/// JSON Schema, draft-07, of a result object: reports/schema/result.schema.json as it was when this
/// program was built, with the metrics of sim/kernel/metric_rows.hpp.
[[nodiscard]] std::string result_schema();

}  // namespace shardsim
