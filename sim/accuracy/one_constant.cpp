#include "sim/accuracy/one_constant.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace shardsim {

namespace {

// The rows that have both, by generation.
std::map<std::string, std::vector<const ValidatedRow*>> rows_by_generation(
    const ValidatedTable& table) {
  std::map<std::string, std::vector<const ValidatedRow*>> rows;
  for (const std::size_t index : rows_with(table, kStepTime, true)) {
    const ValidatedRow& row = table.rows[index];
    if (row.at_peak) rows[row.at_peak->generation].push_back(&row);
  }
  return rows;
}

double measured_of(const ValidatedRow& row) { return row.quantities.at(kStepTime)->measured; }

double median_share(const std::vector<const ValidatedRow*>& rows) {
  std::vector<double> shares;
  for (const ValidatedRow* row : rows) {
    shares.push_back(row->at_peak->seconds / measured_of(*row));
  }
  return quantile(shares, 0.5);
}

}  // namespace

std::optional<OneConstantFigures> one_constant_figures(std::span<const ValidatedTable> tables,
                                                       std::size_t which) {
  std::map<std::string, std::vector<double>> medians;  // By generation, those of the other tables.
  for (std::size_t other = 0; other < tables.size(); ++other) {
    if (other == which) continue;
    for (const auto& [generation, rows] : rows_by_generation(tables[other])) {
      medians[generation].push_back(median_share(rows));
    }
  }
  OneConstantFigures figures;
  for (const auto& [generation, rows] : rows_by_generation(tables[which])) {
    const auto found = medians.find(generation);
    if (found == medians.end()) continue;
    const double share = quantile(found->second, 0.5);
    figures.constants.push_back({generation, share, found->second.size()});
    figures.rows += rows.size();
    for (const ValidatedRow* row : rows) {
      figures.formula += std::abs(row->at_peak->seconds / share / measured_of(*row) - 1.0);
      figures.own += std::abs(row->quantities.at(kStepTime)->error());
    }
  }
  if (figures.rows == 0) return std::nullopt;
  figures.formula /= static_cast<double>(figures.rows);
  figures.own /= static_cast<double>(figures.rows);
  return figures;
}

}  // namespace shardsim
