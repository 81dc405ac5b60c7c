#pragma once

#include <string>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"

// The data of the page's charts, as JSON.
namespace shardsim::html {

/// `detail` in columns, which pack well: times of curves and bars in whole nanoseconds, all else as
/// it is. ASCII, on one line.
[[nodiscard]] std::string detail_json(const RunDetail& detail, double device_memory_bytes);

/// A value as to_json writes it: the same digits.
[[nodiscard]] std::string metric_json(const MetricValue& value);

/// The same JSON, indented. Throws Error (internal) if it is not one JSON object.
[[nodiscard]] std::string pretty_json(const std::string& json);

}  // namespace shardsim::html
