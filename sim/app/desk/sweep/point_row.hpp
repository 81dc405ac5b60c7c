#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result.hpp"

// One finished point, and the line that keeps it. A line is flat JSON: DuckDB and pandas read a
// file of them as a table. Its keys, in this order:
//   point, key, status, code, message, the paths of all axes, and all metrics (null: none).
namespace shardsim {

enum class PointStatus { ok, invalid, out_of_memory, failed };

[[nodiscard]] std::string_view name_of(PointStatus status);

/// Code of what went wrong here rather than in the point, such as too little memory: it may go well
/// the next time, so the point is not finished.
inline constexpr const char* kInternalCode = "internal";

struct PointRow {
  std::size_t point = 0;
  /// Stands for the point's resolved scenario, what files it names say, and this version.
  std::string key;
  PointStatus status = PointStatus::ok;
  std::string code;  ///< "E0203", "memory", "DEADLOCK"; empty if ok.
  std::string message;
  std::vector<std::string> values;  ///< By column, as JSON texts.
  std::vector<Metric> metrics;
};

/// What a part file says of itself in its first line, and again where that changes.
struct PartHeader {
  std::string version;  ///< Of shardsim.
  std::string sweep;    ///< SweepPlan::hash.
  std::size_t num_points = 0;
  std::vector<std::string> columns;
  std::vector<std::string> skip;
  std::string command;  ///< That computes what is missing.
  bool operator==(const PartHeader& other) const = default;
};

/// Both end in a newline.
[[nodiscard]] std::string line_of(const PointRow& row, const std::vector<std::string>& columns);
[[nodiscard]] std::string line_of(const PartHeader& header);

/// A line as it was read, without its newline. Nothing for one that is damaged: torn, or not of
/// ours.
struct PartLine {
  std::optional<PartHeader> header;  ///< Else it is a row.
  std::size_t point = 0;
  std::string key;
  std::string status;
  bool is_final = true;  ///< Else the point is computed again.
};
[[nodiscard]] std::optional<PartLine> parse_line(std::string_view line);

/// The row as CSV (RFC 4180), and the row of names above it.
[[nodiscard]] std::string csv_of(std::string_view line);
[[nodiscard]] std::string csv_header(const std::vector<std::string>& columns);

/// The metrics that rows have, in their order.
[[nodiscard]] std::vector<std::string> row_metrics();

/// Reads back all of a row, as summaries need it. REQUIRES: parse_line() took it for a row.
[[nodiscard]] PointRow row_of(std::string_view line, const std::vector<std::string>& columns);

}  // namespace shardsim
