#pragma once

#include <string>
#include <vector>

#include "sim/accuracy/validated_table.hpp"

// The output of `shardsim validate`, in three forms. Each is a pure function of the tables.
namespace shardsim {

[[nodiscard]] std::string validation_text(const std::vector<ValidatedTable>& tables);

/// One object: per table its figures, every row with its prediction and measurement, and every
/// refused row with the reason; and the figures over all tables.
[[nodiscard]] std::string validation_json(const std::vector<ValidatedTable>& tables);

/// One page without external parts: per table predicted against measured on logarithmic axes, with
/// the diagonal and lines at +-10 %; the figures; and the rows that are apart or refused.
[[nodiscard]] std::string validation_html(const std::vector<ValidatedTable>& tables);

/// "line 5: gpus 8, tp 2 (+31.0 %)": the row at an index of overall or table statistics.
[[nodiscard]] std::string worst_row_text(const ValidatedTable& table, std::size_t index,
                                         std::size_t quantity);
/// The same with the table's name; `index` counts through the headline rows of all tables.
[[nodiscard]] std::string overall_worst_text(const std::vector<ValidatedTable>& tables,
                                             std::size_t index, std::size_t quantity);

/// "2-4, 7": ascending whole numbers, runs of them shortened.
[[nodiscard]] std::string runs_text(const std::vector<int>& numbers);

}  // namespace shardsim
