#pragma once

#include <string>

namespace shardsim {

/// JSON Schema, draft-07, of a result object: reports/schema/result.schema.json as it was when this
/// program was built, with the metrics of sim/kernel/metric_rows.hpp.
[[nodiscard]] std::string result_schema();

}  // namespace shardsim
