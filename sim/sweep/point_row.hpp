#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result.hpp"

// One finished point, and the line that keeps it. A line is flat JSON: DuckDB and pandas read a
// file of them as a table. Its keys, in this order:
//   point, key, status, code, message, warnings (a list of texts), the paths of all axes, all
//   metrics (null: none), and the error bands of two metrics: METRIC.band_low, _centre, _high,
//   _group and _held_out_share (null: none).
namespace shardsim {

enum class PointStatus { ok, invalid, out_of_memory, failed };

[[nodiscard]] std::string_view name_of(PointStatus status);

/// Code of a failure of this machine, not of the point, such as too little memory. The next attempt
/// may succeed, so the point is not finished.
inline constexpr const char* kInternalCode = "internal";

struct PointRow {
  std::size_t point = 0;
  /// The hash of the point's resolved scenario, the content of its files, and this version.
  std::string key;
  PointStatus status = PointStatus::ok;
  std::string code;  ///< "E0203", "memory", "DEADLOCK"; empty if ok.
  std::string message;
  std::vector<std::string> warnings;
  std::vector<std::string> values;  ///< By column, as JSON texts.
  std::vector<Metric> metrics;
  std::vector<MetricBand> bands;  ///< As far as a line has them.
};

/// The first line of a part file, which is repeated if it changes.
struct PartHeader {
  std::string version;  ///< Version of shardsim.
  std::string sweep;    ///< SweepPlan::hash.
  std::size_t num_points = 0;
  std::vector<std::string> columns;
  std::vector<std::string> skip;
  std::string command;  ///< The command that computes the missing points.
  bool operator==(const PartHeader& other) const = default;
};

/// Both end in a newline.
[[nodiscard]] std::string line_of(const PointRow& row, const std::vector<std::string>& columns);
[[nodiscard]] std::string line_of(const PartHeader& header);

/// A line as it was read, without its newline. Nothing for a line that is torn or has another
/// format.
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

/// Reads back all of a row, as summaries need it. REQUIRES: parse_line() took it for a row.
[[nodiscard]] PointRow row_of(std::string_view line, const std::vector<std::string>& columns);

}  // namespace shardsim
