#include "sim/accuracy/measurement_table.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{16} << 20U;

class TableReader {
 public:
  explicit TableReader(const SourceText& source) : source_(&source), text_(source.text) {
    if (text_.rfind("\xEF\xBB\xBF", 0) == 0) at_ = 3;  // A byte order mark, as spreadsheets write.
  }

  /// Nothing at the end of the text. Empty lines are skipped.
  std::optional<MeasurementRow> next_row() {
    while (skip_line_end()) {
    }
    if (at_ >= text_.size()) return std::nullopt;
    MeasurementRow row;
    row.line = line_;
    do {
      const std::size_t begin = at_;
      row.cells.push_back(next_cell());
      row.places.push_back({source_, begin, std::max<std::size_t>(at_ - begin, 1)});
    } while (skip(','));
    skip_line_end();
    return row;
  }

 private:
  [[nodiscard]] bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }

  bool skip(char c) {
    if (!at(c)) return false;
    ++at_;
    return true;
  }

  bool skip_line_end() {
    const std::size_t before = at_;
    skip('\r');
    if (skip('\n')) {
      ++line_;
      return true;
    }
    return at_ != before;  // A lone carriage return, as very old files have.
  }

  std::string next_cell() {
    if (at('"')) return quoted_cell();
    std::string cell;
    while (at_ < text_.size() && !at(',') && !at('\n') && !at('\r')) {
      if (at('"')) {
        throw_problem("E0921", {source_, at_, 1},
                      "a quote within a cell that does not begin with one",
                      "put the whole cell in quotes and write each quote inside as two");
      }
      cell += text_[at_++];
    }
    return cell;
  }

  std::string quoted_cell() {
    const std::size_t begin = at_++;
    std::string cell;
    for (;; ++at_) {
      if (at_ >= text_.size()) {
        throw_problem("E0921", {source_, begin, 1}, "the quote that begins this cell is not closed",
                      "close it; a quote inside a cell is written as two");
      }
      if (at('\n')) ++line_;
      if (at('"')) {
        ++at_;
        if (!at('"')) break;
      }
      cell += text_[at_];
    }
    if (at_ < text_.size() && !at(',') && !at('\n') && !at('\r')) {
      throw_problem("E0921", {source_, at_, 1}, "a cell goes on after its closing quote",
                    "write a quote inside a cell as two");
    }
    return cell;
  }

  const SourceText* source_;
  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

void check_header(const MeasurementRow& header) {
  for (std::size_t i = 0; i < header.cells.size(); ++i) {
    const std::string& name = header.cells[i];
    if (name.empty()) {
      throw_problem("E0923", header.places[i], fmt::format("column {} has no name", i + 1),
                    "name every column in the first line");
    }
    const auto end = header.cells.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(header.cells.begin(), end, name) != end) {
      throw_problem("E0923", header.places[i],
                    fmt::format("two columns are called \"{}\"", printable(name)),
                    "rename one of them");
    }
  }
}

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
  const std::optional<double> value = parse_number<double>(cell);
  if (!value || !std::isfinite(*value)) {
    throw_problem("E0924", row.places[column],
                  fmt::format("column \"{}\" must hold a number, not \"{}\"", table.columns[column],
                              printable(cell, 40)),
                  "correct the cell, leave it empty, or give \"words\" in the mapping");
  }
  return *value;
}

double value_of(const RowFactor& factor, const MeasurementTable& table, const MeasurementRow& row) {
  return factor.column ? number_in(table, row, *factor.column) : factor.number;
}

double product_of(const RowConversion& conversion, const MeasurementTable& table,
                  const MeasurementRow& row) {
  double value = 1.0;
  for (const RowFactor& factor : conversion.product) value *= value_of(factor, table, row);
  for (const RowFactor& factor : conversion.over) {
    const double divisor = value_of(factor, table, row);
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

std::size_t MeasurementTable::find_column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  return found == columns.end() ? kNoColumn : static_cast<std::size_t>(found - columns.begin());
}

MeasurementTable parse_measurement_table(const std::string& text, const std::string& file_name) {
  MeasurementTable table;
  table.source = std::make_shared<const SourceText>(SourceText{file_name, text});
  TableReader reader(*table.source);
  std::optional<MeasurementRow> header = reader.next_row();
  if (!header) {
    throw_problem("E0923", {table.source.get(), 0, 0}, "the table is empty",
                  "its first line must name the columns");
  }
  check_header(*header);
  table.columns = std::move(header->cells);
  while (std::optional<MeasurementRow> row = reader.next_row()) {
    if (row->cells.size() != table.columns.size()) {
      throw_problem(
          "E0922", row->places.front(),
          fmt::format("this row has {} cells, the header names {} columns", row->cells.size(),
                      table.columns.size()),
          "give every column one cell; a cell with a comma in it stands in double quotes");
    }
    table.rows.push_back(std::move(*row));
  }
  return table;
}

MeasurementTable read_measurement_table(const std::string& path) {
  return parse_measurement_table(read_regular_file(path, kMaxTableBytes), path);
}

void report_unknown_words(const RowConversion& conversion, const MeasurementTable& table,
                          ProblemList& problems) {
  if (conversion.words.empty()) return;
  const std::size_t column = *conversion.product.front().column;
  std::map<std::string, std::vector<const MeasurementRow*>> unknown;
  for (const MeasurementRow& row : table.rows) {
    const std::string& cell = row.cells[column];
    if (!cell.empty() && conversion.words.count(cell) == 0) unknown[cell].push_back(&row);
  }
  for (const auto& [word, rows] : unknown) {
    const std::string others =
        rows.size() == 1 ? "" : fmt::format(", in this row and {} more", rows.size() - 1);
    problems.add("E0929", rows.front()->places[column], "",
                 fmt::format("the mapping has no word for \"{}\" in column \"{}\"{}",
                             printable(word), table.columns[column], others),
                 "add it to \"words\", if need be with {\"cannot\": \"why\"}; there are " +
                     known_words(conversion));
  }
}

RowValue convert(const RowConversion& conversion, const MeasurementTable& table,
                 const MeasurementRow& row) {
  const RowFactor* empty = empty_factor(conversion.product, row);
  if (empty == nullptr) empty = empty_factor(conversion.over, row);
  if (empty != nullptr) {
    if (conversion.empty) return *conversion.empty;
    const std::string& column = table.columns[*empty->column];
    return {RowValue::Kind::refused, fmt::format("column \"{}\" is empty", column), column};
  }
  if (conversion.is_product) {
    return {RowValue::Kind::given, number_text_of(product_of(conversion, table, row))};
  }
  const std::size_t column = *conversion.product.front().column;
  const std::string& cell = row.cells[column];
  if (conversion.words.empty()) return {RowValue::Kind::given, cell};
  const auto found = conversion.words.find(cell);
  if (found == conversion.words.end()) {
    ProblemList problems;
    report_unknown_words(conversion, table, problems);
    problems.throw_if_any();
  }
  return found->second;
}

}  // namespace shardsim
