#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Reads the measured tables under tests/validation.
namespace shardsim::testing {

/// One row: cell by column name.
using MeasuredRow = std::map<std::string, std::string>;

/// Cells of a line; a cell in double quotes may hold commas. No cell holds a quote or a line end.
inline std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

/// The rows of tests/validation/NAME, in order. Throws std::runtime_error if there is none such or
/// a row has another number of cells than the header.
inline std::vector<MeasuredRow> measured_table(const std::string& name) {
  std::ifstream file("tests/validation/" + name);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error("no table " + name);
  const std::vector<std::string> header = cells_of(line);
  std::vector<MeasuredRow> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != header.size()) throw std::runtime_error("torn row in " + name);
    MeasuredRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
  }
  return rows;
}

}  // namespace shardsim::testing
