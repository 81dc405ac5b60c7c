#include "sim/run/band/band_coverage.hpp"

#include "sim/run/band/error_band.hpp"

namespace shardsim {

namespace {

bool is_inside(const MeasuredError& row, const MeasuredRows& rows, double widening) {
  const ErrorBand band = widened(*nearest_band(rows, row.setting), widening);
  return band.low <= row.ratio() && row.ratio() <= band.high;
}

}  // namespace

std::size_t BandCoverage::rows() const {
  std::size_t sum = 0;
  for (const Table& table : tables) sum += table.rows;
  return sum;
}

std::size_t BandCoverage::inside() const {
  std::size_t sum = 0;
  for (const Table& table : tables) sum += table.inside;
  return sum;
}

std::size_t BandCoverage::inside_without() const {
  std::size_t sum = 0;
  for (const Table& table : tables) sum += table.inside_without;
  return sum;
}

double BandCoverage::mean_share_without() const {
  double sum = 0.0;
  for (const Table& table : tables) {
    sum += static_cast<double>(table.inside_without) / static_cast<double>(table.rows);
  }
  return tables.empty() ? 0.0 : sum / static_cast<double>(tables.size());
}

BandCoverage band_coverage(const std::vector<MeasuredError>& all, const std::string& quantity,
                           const std::string& software) {
  const MeasuredRows rows = comparable_rows(all, quantity, software);
  const std::vector<std::string> names = tables_of(rows);
  BandCoverage coverage;
  if (names.size() < 2) return coverage;
  coverage.widening = widening_of(rows);
  for (const std::string& name : names) {
    const MeasuredRows others = without_table(rows, name);
    const double widening = widening_of(others);
    BandCoverage::Table table{name};
    for (const MeasuredError* row : rows) {
      if (row->table != name) continue;
      ++table.rows;
      table.inside += is_inside(*row, rows, coverage.widening) ? 1 : 0;
      table.inside_without += is_inside(*row, others, widening) ? 1 : 0;
    }
    coverage.tables.push_back(table);
  }
  return coverage;
}

}  // namespace shardsim
