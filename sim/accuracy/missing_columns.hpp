#pragma once

#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/accuracy/validated_table.hpp"

// Rows that are not represented because the table lacks a cell, a column or a field, and that would
// be if it had them. Any other obstacle of a row keeps it out of the count.
namespace shardsim {

/// Rows that need the same.
struct MissingColumns {
  std::vector<std::string> needs;  ///< "tp": all that the table would have to say of the row.
  std::vector<int> lines;          ///< Lines of the rows.
};

/// The needs of most rows first; of equal numbers the first that appears.
[[nodiscard]] std::vector<MissingColumns> missing_columns(const ValidatedTable& table);

/// The scenario fields without which the loader refused a row, if that is all that it refused; else
/// none. "model.num_layers".
[[nodiscard]] std::vector<std::string> missing_fields(const Error& error);

/// Lines such as "  heads would unlock 4 rows"; nothing if no column would.
[[nodiscard]] std::string missing_columns_text(const ValidatedTable& table);

}  // namespace shardsim
