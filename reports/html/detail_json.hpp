#pragma once

#include <string>
#include <string_view>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"

// The data of the page's charts, as JSON, and its packing.
namespace shardsim::html {

/// `detail` in columns, which pack well: times of curves and bars in whole nanoseconds, all else as
/// it is. ASCII, on one line.
[[nodiscard]] std::string detail_json(const RunDetail& detail, double device_memory_bytes);

/// A value as to_json writes it: the same digits.
[[nodiscard]] std::string metric_json(const MetricValue& value);

/// The same JSON, indented. Throws Error (internal) if it is not one JSON object.
[[nodiscard]] std::string pretty_json(const std::string& json);

/// gzip (RFC 1952) without a time or a name, in base64. Equal texts give equal ones with the same
/// zlib. Throws Error (internal) if zlib fails.
[[nodiscard]] std::string gzip_base64(std::string_view text);

}  // namespace shardsim::html
