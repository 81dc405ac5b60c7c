#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

// A table of measurements: comma-separated values as in RFC 4180, with a header. Quoted cells may
// hold commas, line ends and doubled quotes. Cells are texts.
namespace shardsim {

struct MeasurementRow {
  std::vector<std::string> cells;  ///< One for each column.
  std::vector<Span> places;        ///< Places of the cells, quotes included.
  int line = 0;                    ///< On which the row begins, from 1.
};

struct MeasurementTable {
  static constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);

  std::shared_ptr<const SourceText> source;  ///< The text that places point into.
  std::vector<std::string> columns;
  std::vector<MeasurementRow> rows;

  /// kNoColumn if there is none of this name.
  [[nodiscard]] std::size_t find_column(const std::string& name) const;
};

/// Throws ScenarioError for a text that is no such table, with the line: E0921 (quotes), E0922 (a
/// row of another number of cells), E0923 (the header).
[[nodiscard]] MeasurementTable parse_measurement_table(const std::string& text,
                                                       const std::string& file_name);

/// Throws ScenarioError, also for a file that cannot be read or is larger than 16 MiB.
[[nodiscard]] MeasurementTable read_measurement_table(const std::string& path);

}  // namespace shardsim
