#include "sim/run/band/error_band.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace shardsim {

namespace {

bool is_like(const RunSetting& a, const RunSetting& b, Likeness likeness) {
  const bool device = a.device == b.device;
  const bool software = a.software == b.software;
  switch (likeness) {
    case Likeness::device_and_software:
      return device && software;
    case Likeness::device_or_software:
      return device || software;
    case Likeness::any:
      return true;
  }
  return true;
}

MeasuredRows rows_like(const MeasuredRows& rows, const RunSetting& setting, Likeness likeness) {
  MeasuredRows found;
  for (const MeasuredError* row : rows) {
    if (is_like(row->setting, setting, likeness)) found.push_back(row);
  }
  return found;
}

// The factor between the ranks of a row and those of the run, at least 1.
double distance_of(const MeasuredError& row, const RunSetting& setting) {
  const double ratio = static_cast<double>(row.setting.ranks) / static_cast<double>(setting.ranks);
  return std::max(ratio, 1.0 / ratio);
}

// Keeps one table's rows with the nearest ranks, and all that are as near as the last of them.
void keep_nearest(MeasuredRows& rows, const RunSetting& setting) {
  if (rows.size() <= kEnoughRows) return;
  std::ranges::stable_sort(rows, {},
                           [&](const MeasuredError* row) { return distance_of(*row, setting); });
  const double last = distance_of(*rows[kEnoughRows - 1], setting);
  while (distance_of(*rows.back(), setting) > last) rows.pop_back();
}

ErrorBand band_of(const MeasuredRows& rows, const RunSetting& setting, Likeness likeness) {
  std::map<std::string, MeasuredRows> by_table;
  for (const MeasuredError* row : rows) by_table[row->table].push_back(row);
  ErrorBand band;
  band.likeness = likeness;
  band.tables = by_table.size();
  std::vector<WeightedValue> ratios;
  for (auto& [table, own] : by_table) {
    keep_nearest(own, setting);
    band.rows += own.size();
    for (const MeasuredError* row : own) {
      const std::int64_t ranks = row->setting.ranks;
      band.least_ranks = ratios.empty() ? ranks : std::min(band.least_ranks, ranks);
      band.most_ranks = std::max(band.most_ranks, ranks);
      band.rows_on_device += row->setting.device == setting.device ? 1 : 0;
      band.rows_with_software += row->setting.software == setting.software ? 1 : 0;
      ratios.push_back({row->ratio(), 1.0 / static_cast<double>(own.size())});
    }
  }
  for (const WeightedValue& ratio : ratios) {
    band.bias += (1.0 / ratio.value - 1.0) * ratio.weight / static_cast<double>(by_table.size());
  }
  band.low = weighted_quantile(ratios, kBandTail);
  band.centre = weighted_quantile(ratios, 0.5);
  band.high = weighted_quantile(std::move(ratios), 1.0 - kBandTail);
  return band;
}

// The factor by which each row of a table is outside of the bands that all others give; below 1
// inside.
std::vector<double> factors_outside(const MeasuredRows& rows, const std::string& table) {
  const MeasuredRows others = without_table(rows, table);
  std::map<std::pair<std::pair<std::string, std::string>, std::int64_t>, ErrorBand> bands;
  std::vector<double> factors;
  for (const MeasuredError* row : rows) {
    if (row->table != table) continue;
    const RunSetting& setting = row->setting;
    const auto [band, is_new] =
        bands.try_emplace({{setting.device, setting.software}, setting.ranks});
    if (is_new) band->second = *nearest_band(others, setting);
    factors.push_back(std::max(band->second.low / row->ratio(), row->ratio() / band->second.high));
  }
  return factors;
}

bool is_inside(const MeasuredError& row, const ErrorBand& band) {
  return band.low <= row.ratio() && row.ratio() <= band.high;
}

}  // namespace

MeasuredRows comparable_rows(const std::vector<MeasuredError>& all, const std::string& quantity,
                             const std::string& software) {
  const auto has_framework = [](const std::string& name) { return name != "none"; };
  MeasuredRows rows;
  for (const MeasuredError& row : all) {
    if (row.quantity == quantity &&
        has_framework(row.setting.software) == has_framework(software)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

std::optional<ErrorBand> nearest_band(const MeasuredRows& rows, const RunSetting& setting) {
  if (rows.empty()) return std::nullopt;
  for (const Likeness likeness : {Likeness::device_and_software, Likeness::device_or_software}) {
    const MeasuredRows like = rows_like(rows, setting, likeness);
    if (like.size() >= kEnoughRows && tables_of(like).size() >= kEnoughTables) {
      return band_of(like, setting, likeness);
    }
  }
  return band_of(rows, setting, Likeness::any);
}

double widening_of(const MeasuredRows& rows) {
  const std::vector<std::string> tables = tables_of(rows);
  if (tables.size() < 2) return 1.0;
  std::vector<WeightedValue> factors;
  for (const std::string& table : tables) {
    const std::vector<double> own = factors_outside(rows, table);
    for (const double factor : own)
      factors.push_back({factor, 1.0 / static_cast<double>(own.size())});
  }
  std::ranges::sort(factors, {}, &WeightedValue::value);
  // Weights are rounded; a row is worth far more.
  const double wanted = kBandShare * static_cast<double>(tables.size()) - 1e-9;
  double held = 0.0;
  for (const WeightedValue& factor : factors) {
    held += factor.weight;
    if (held >= wanted) return std::max(1.0, factor.value);
  }
  return std::max(1.0, factors.back().value);
}

ErrorBand widened(ErrorBand band, double factor) {
  band.low /= factor;
  band.high *= factor;
  return band;
}

double weighted_quantile(std::vector<WeightedValue> values, double share) {
  std::ranges::sort(values, {},
                    [](const WeightedValue& each) { return std::pair(each.value, each.weight); });
  double whole = 0.0;
  for (const WeightedValue& value : values) whole += value.weight;
  const double wanted = share * whole;
  double below = 0.0;
  double place = 0.0;  // That of the value before.
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double middle = below + values[i].weight / 2.0;
    if (wanted <= middle) {
      if (i == 0) return values[i].value;
      const double step = (wanted - place) / (middle - place);
      return values[i - 1].value + step * (values[i].value - values[i - 1].value);
    }
    place = middle;
    below += values[i].weight;
  }
  return values.back().value;
}

MeasuredRows without_table(const MeasuredRows& rows, const std::string& table) {
  MeasuredRows others;
  for (const MeasuredError* row : rows) {
    if (row->table != table) others.push_back(row);
  }
  return others;
}

std::vector<std::string> tables_of(const MeasuredRows& rows) {
  std::set<std::string> names;
  for (const MeasuredError* row : rows) names.insert(row->table);
  return {names.begin(), names.end()};
}

// --- Coverage ----------------------------------------------------------------------------------

std::size_t BandCoverage::sum_of(std::size_t Table::*count) const {
  std::size_t sum = 0;
  for (const Table& table : tables) sum += table.*count;
  return sum;
}

double BandCoverage::mean_share_without() const {
  double sum = 0.0;
  for (const Table& table : tables) {
    sum += static_cast<double>(table.inside_without) / static_cast<double>(table.rows);
  }
  return tables.empty() ? 0.0 : sum / static_cast<double>(tables.size());
}

double BandCoverage::mean_of(double Table::*sum) const {
  double mean = 0.0;
  for (const Table& table : tables) mean += table.*sum / static_cast<double>(table.rows);
  return tables.empty() ? 0.0 : mean / static_cast<double>(tables.size());
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
      const ErrorBand with = *nearest_band(rows, row->setting);
      const ErrorBand without = *nearest_band(others, row->setting);
      table.inside += is_inside(*row, widened(with, coverage.widening)) ? 1 : 0;
      table.inside_without += is_inside(*row, widened(without, widening)) ? 1 : 0;
      table.centre_error_without += std::abs(without.centre / row->ratio() - 1.0);
      table.model_error += std::abs(1.0 / row->ratio() - 1.0);
    }
    coverage.tables.push_back(table);
  }
  return coverage;
}

}  // namespace shardsim
