#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"

// A run as tables for spreadsheets, DuckDB and pandas: comma-separated, with a first row of names,
// quoted as RFC 4180 requires (csv_cell()). Lines end with a line feed. Numbers have all the
// digits it takes to read the same number back.
namespace shardsim {

/// Writes a text as a cell of a CSV file, quoted as RFC 4180 requires. Spreadsheets compute a cell
/// that begins with = + - @ or a control character. Such a cell gets a leading apostrophe, which
/// marks plain text, unless the whole cell is a number. Use it for every cell that is not made from
/// a number.
[[nodiscard]] std::string csv_cell(std::string_view text);

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

/// The metrics of a result, in the order of all writers.
[[nodiscard]] std::vector<Metric> ordered_metrics(const Result& result);

}  // namespace shardsim
