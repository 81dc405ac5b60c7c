#include "sim/run/band/band_coverage.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/run/band/error_band.hpp"

namespace shardsim {

namespace {

// A row with its band, and with the band that is made without its table.
struct BandedRow {
  const MeasuredError* row = nullptr;
  ErrorBand with;
  ErrorBand without;

  [[nodiscard]] bool is_inside_without() const { return without.holds(row->ratio()); }
};

// Bands of one set of rows, one for each smallest group. Counts of a run's own device and software
// are those of the group's first run; nobody asks for them here.
class BandsOfGroups {
 public:
  explicit BandsOfGroups(const MeasuredRows& rows) : rows_(rows) {}

  const ErrorBand& at(const RunSetting& setting) {
    const auto [found, is_new] = bands_.try_emplace(group_name(setting, 0));
    if (is_new) found->second = *group_band(rows_, setting);
    return found->second;
  }

 private:
  const MeasuredRows& rows_;
  std::map<std::string, ErrorBand> bands_;
};

std::vector<BandedRow> banded_rows(const MeasuredRows& rows) {
  BandsOfGroups with(rows);
  std::vector<BandedRow> banded;
  for (const std::string& table : tables_of(rows)) {
    const MeasuredRows others = without_table(rows, table);
    BandsOfGroups without(others);
    for (const MeasuredError* row : rows) {
      if (row->table != table) continue;
      banded.push_back({row, with.at(row->setting), without.at(row->setting)});
    }
  }
  return banded;
}

// REQUIRES: !values.empty().
double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The mean of tables of their rows' share in the group's band that is made without the table.
double share_of_own_band(const MeasuredRows& all, const std::vector<const BandedRow*>& rows,
                         std::size_t level) {
  std::map<std::string, std::vector<const MeasuredError*>> tables;
  for (const BandedRow* banded : rows) tables[banded->row->table].push_back(banded->row);
  double sum = 0.0;
  for (const auto& [name, own] : tables) {
    const auto band = group_band(without_table(all, name), own.front()->setting, level);
    const auto held = std::ranges::count_if(
        own, [&](const MeasuredError* row) { return band->holds(row->ratio()); });
    sum += static_cast<double>(held) / static_cast<double>(own.size());
  }
  return sum / static_cast<double>(tables.size());
}

GroupCoverage group_coverage(const std::vector<const BandedRow*>& rows, std::size_t level) {
  const RunSetting& setting = rows.front()->row->setting;
  GroupCoverage group{.group = group_name(setting, level), .rows = rows.size()};
  std::map<std::string, std::vector<const BandedRow*>> tables;
  std::set<std::string> band_groups;
  std::vector<double> widths;
  for (const BandedRow* banded : rows) {
    tables[banded->row->table].push_back(banded);
    band_groups.insert(group_name(banded->row->setting, banded->with.level));
    widths.push_back(banded->with.width());
    group.inside_without += banded->is_inside_without() ? 1 : 0;
    group.outside += banded->with.holds(1.0) ? 0 : 1;
  }
  group.tables = tables.size();
  group.has_band = is_enough(group.rows, group.tables) || level + 1 == kGroupLevels.size();
  group.width = median_of(widths);
  if (band_groups.size() == 1) group.band_group = *band_groups.begin();
  for (const auto& [name, own] : tables) {
    const double share = 1.0 / static_cast<double>(own.size() * tables.size());
    for (const BandedRow* banded : own) {
      group.bias += banded->row->error * share;
      group.mean_share_without += banded->is_inside_without() ? share : 0.0;
    }
  }
  return group;
}

std::vector<GroupCoverage> groups_of(const MeasuredRows& all,
                                     const std::vector<BandedRow>& banded) {
  std::vector<GroupCoverage> groups;
  std::set<std::string> known;  // Without a framework, groups of two levels are the same.
  for (std::size_t level = 0; level < kGroupLevels.size(); ++level) {
    std::map<std::string, std::vector<const BandedRow*>> members;
    for (const BandedRow& each : banded) {
      members[group_name(each.row->setting, level)].push_back(&each);
    }
    for (const auto& [name, rows] : members) {
      if (!known.insert(name).second) continue;
      groups.push_back(group_coverage(rows, level));
      groups.back().share_of_own_band = share_of_own_band(all, rows, level);
    }
  }
  return groups;
}

}  // namespace

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

const BandCoverage::Table& BandCoverage::largest() const {
  return *std::ranges::max_element(tables, {}, &Table::rows);
}

double BandCoverage::share_but_largest() const {
  const Table& left_out = largest();
  return static_cast<double>(inside_without() - left_out.inside_without) /
         static_cast<double>(rows() - left_out.rows);
}

double BandCoverage::mean_of(double Table::*sum) const {
  double mean = 0.0;
  for (const Table& table : tables) mean += table.*sum / static_cast<double>(table.rows);
  return tables.empty() ? 0.0 : mean / static_cast<double>(tables.size());
}

BandCoverage band_coverage(const std::vector<MeasuredError>& all, const std::string& quantity,
                           const std::string& software) {
  const MeasuredRows rows = comparable_rows(all, quantity, software);
  BandCoverage coverage;
  if (tables_of(rows).size() < 2) return coverage;
  const std::vector<BandedRow> banded = banded_rows(rows);
  for (const BandedRow& each : banded) {
    const MeasuredError& row = *each.row;
    if (coverage.tables.empty() || coverage.tables.back().name != row.table) {
      coverage.tables.push_back({.name = row.table});
    }
    BandCoverage::Table& table = coverage.tables.back();
    ++table.rows;
    table.inside += each.with.holds(row.ratio()) ? 1 : 0;
    table.inside_without += each.is_inside_without() ? 1 : 0;
    table.centre_error_without += std::abs(each.without.centre / row.ratio() - 1.0);
    table.model_error += std::abs(1.0 / row.ratio() - 1.0);
  }
  coverage.groups = groups_of(rows, banded);
  return coverage;
}

}  // namespace shardsim
