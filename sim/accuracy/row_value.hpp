#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/source_text.hpp"
#include "sim/accuracy/measurement_table.hpp"

// Turns the cells of a row into one number, or into one field of a scenario.
namespace shardsim {

/// A row's value for a field.
struct RowValue {
  enum class Kind {
    given,     ///< `text` is the value, as --set takes it.
    left_out,  ///< The field keeps the value of the mapping's scenario, or a default.
    refused,   ///< The row cannot be represented; `text` says why.
  };
  Kind kind = Kind::left_out;
  std::string text;
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

/// Throws ScenarioError: E0924 for a cell that must be a number and is none (or a divisor of 0),
/// E0929 for one that `words` do not have.
[[nodiscard]] RowValue convert(const RowConversion& conversion, const MeasurementTable& table,
                               const MeasurementRow& row);

}  // namespace shardsim
