#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "sim/accuracy/validated_table.hpp"

// Figures that may not become worse: for each table and quantity the mean absolute error of the
// headline's rows, and their number (an error also shrinks by refusing rows). Figures of whole
// tables and of samples are kept apart. The file is tests/validation/ratchet.json.
namespace shardsim {

struct RatchetFigure {
  std::size_t rows = 0;
  double mean_absolute_error = 0.0;
};

/// By "whole" or "sample", then by table, then by the quantity's key.
using RatchetFigures =
    std::map<std::string, std::map<std::string, std::map<std::string, RatchetFigure>>>;

/// Throws ScenarioError with file and line: E0930 (keys and types), and those of JSON.
[[nodiscard]] RatchetFigures read_ratchet(const std::string& path);

/// The file's text. Errors are rounded up to 1e-6, so that figures just written hold.
[[nodiscard]] std::string ratchet_text(const RatchetFigures& figures);

/// Replaces the existing figures with those of these tables.
void set_figures(RatchetFigures& figures, bool sample, const std::vector<ValidatedTable>& tables);

/// One sentence for each figure that became worse or is missing on either side, except those of
/// tables that were not run.
[[nodiscard]] std::vector<std::string> became_worse(const RatchetFigures& figures, bool sample,
                                                    const std::vector<ValidatedTable>& tables);

}  // namespace shardsim
