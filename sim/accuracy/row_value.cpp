#include "sim/accuracy/row_value.hpp"

#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

// Whole numbers have no point: the loader takes "8" for a degree, and not "8.0".
std::string number_text_of(double value) {
  constexpr double kLargestWhole = 9007199254740992.0;
  if (value == std::floor(value) && std::abs(value) <= kLargestWhole) {
    return fmt::format("{:.0f}", value);
  }
  return fmt::format("{}", value);
}

double number_in(const MeasurementTable& table, const MeasurementRow& row, std::size_t column) {
  const std::string_view cell = row.cells[column];
  double value = 0.0;
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    throw_problem("E0924", row.places[column],
                  fmt::format("column \"{}\" must hold a number, not \"{}\"", table.columns[column],
                              printable(cell, 40)),
                  "correct the cell, leave it empty, or give \"words\" in the mapping");
  }
  return value;
}

double product_of(const RowConversion& conversion, const MeasurementTable& table,
                  const MeasurementRow& row) {
  double value = 1.0;
  for (const RowFactor& factor : conversion.product) {
    value *= factor.column ? number_in(table, row, *factor.column) : factor.number;
  }
  for (const RowFactor& factor : conversion.over) {
    const double divisor = factor.column ? number_in(table, row, *factor.column) : factor.number;
    if (divisor == 0.0) {
      throw_problem("E0924", factor.column ? row.places[*factor.column] : conversion.place,
                    "this is divided by, and is 0", "correct the cell, or \"over\" in the mapping");
    }
    value /= divisor;
  }
  return value;
}

const RowFactor* empty_factor(const std::vector<RowFactor>& factors, const MeasurementRow& row) {
  for (const RowFactor& factor : factors) {
    if (factor.column && row.cells[*factor.column].empty()) return &factor;
  }
  return nullptr;
}

std::string known_words(const RowConversion& conversion) {
  std::string words;
  for (const auto& [word, value] : conversion.words) {
    words += (words.empty() ? "\"" : ", \"") + printable(word) + "\"";
  }
  return words;
}

}  // namespace

RowValue convert(const RowConversion& conversion, const MeasurementTable& table,
                 const MeasurementRow& row) {
  const RowFactor* empty = empty_factor(conversion.product, row);
  if (empty == nullptr) empty = empty_factor(conversion.over, row);
  if (empty != nullptr) {
    if (conversion.empty) return *conversion.empty;
    return {RowValue::Kind::refused,
            fmt::format("column \"{}\" is empty", table.columns[*empty->column])};
  }
  if (conversion.is_product) {
    return {RowValue::Kind::given, number_text_of(product_of(conversion, table, row))};
  }
  const std::size_t column = *conversion.product.front().column;
  const std::string& cell = row.cells[column];
  if (conversion.words.empty()) return {RowValue::Kind::given, cell};
  const auto found = conversion.words.find(cell);
  if (found == conversion.words.end()) {
    throw_problem("E0929", row.places[column],
                  fmt::format("the mapping has no word for \"{}\" in column \"{}\"",
                              printable(cell), table.columns[column]),
                  "add it to \"words\", if need be with {\"cannot\": \"why\"}; there are " +
                      known_words(conversion));
  }
  return found->second;
}

}  // namespace shardsim
