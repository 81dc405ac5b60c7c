#pragma once

#include <string>
#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"

// A run as tables for spreadsheets, DuckDB and pandas: comma-separated, a row of names first,
// quoted as RFC 4180 requires (csv_cell.hpp), lines ended by a line feed. Numbers have all the
// digits it takes to read the same number back.
namespace shardsim {

struct CsvTable {
  std::string name;  ///< "stages"
  std::string text;
};

/// Columns name, value, in the order of the JSON.
[[nodiscard]] std::string metrics_csv(const Result& result);

/// stages, axes, links, traffic, operations, memory, schedule.
[[nodiscard]] std::vector<CsvTable> csv_tables(const RunDetail& detail);

/// A metric's value, with all its digits.
[[nodiscard]] std::string exact_text(const MetricValue& value);

/// Those of a result in the order in which all writers list them.
[[nodiscard]] std::vector<Metric> ordered_metrics(const Result& result);

}  // namespace shardsim
