#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

// A table of measurements: comma-separated values as in RFC 4180, with a header. Quoted cells may
// hold commas, line ends and doubled quotes. Cells are texts; those of a row are turned into one
// number, or into one field of a scenario.
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

/// A row's value for a field.
struct RowValue {
  enum class Kind {
    given,     ///< `text` is the value, as --set takes it.
    left_out,  ///< The field keeps the value of the mapping's scenario, or a default.
    refused,   ///< The row cannot be represented; `text` says why.
  };
  Kind kind = Kind::left_out;
  std::string text;
  /// If it is refused: what the table would have to say for the row to be represented. Empty: more
  /// columns do not help.
  std::string needs = {};
};

/// A column of the table, or a number.
struct RowFactor {
  std::optional<std::size_t> column;
  double number = 1.0;  ///< If there is no column.
};

/// How cells become a value. With `words`, the cell of the one column is looked up. Else, if it is
/// a product, columns and numbers of `product` are multiplied and then divided by those of `over`,
/// in their order. Else the cell of the one column is taken unchanged.
struct RowConversion {
  bool is_product = false;
  std::vector<RowFactor> product;  ///< The one column, if it is not a product.
  std::vector<RowFactor> over;
  std::map<std::string, RowValue> words;
  /// If one of the cells is empty; without, the row is refused then.
  std::optional<RowValue> empty;
  Span place;  ///< In the mapping.
};

/// E0929 for each cell's text that `words` do not have, with its first row and how many more have
/// it.
void report_unknown_words(const RowConversion& conversion, const MeasurementTable& table,
                          ProblemList& problems);

/// Throws ScenarioError: E0924 for a cell that must be a number and is none (or a divisor of 0),
/// E0929 for one that `words` do not have.
[[nodiscard]] RowValue convert(const RowConversion& conversion, const MeasurementTable& table,
                               const MeasurementRow& row);

}  // namespace shardsim
