#include "sim/run/band/error_band.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace shardsim {

namespace {

// Quantiles from which an interval may begin: so many parts of the weight that it leaves out.
constexpr int kPlaces = 20;

// The ratios, with the same weight for each table.
std::vector<WeightedValue> weighted_ratios(const MeasuredRows& rows) {
  std::map<std::string, std::size_t> counts;
  for (const MeasuredError* row : rows) ++counts[row->table];
  std::vector<WeightedValue> ratios;
  ratios.reserve(rows.size());
  for (const MeasuredError* row : rows) {
    ratios.push_back({row->ratio(), 1.0 / static_cast<double>(counts.at(row->table))});
  }
  return ratios;
}

// As if one more table stood at the model's 1.
double shrunk_median(const MeasuredRows& rows) {
  const auto tables = static_cast<double>(tables_of(rows).size());
  const double median = weighted_quantile(weighted_ratios(rows), 0.5);
  return 1.0 + (median - 1.0) * tables / (tables + 1.0);
}

double mean_error(const MeasuredRows& rows, const std::string& table, double centre) {
  double sum = 0.0;
  double count = 0.0;
  for (const MeasuredError* row : rows) {
    if (row->table != table) continue;
    sum += std::abs(centre / row->ratio() - 1.0);
    count += 1.0;
  }
  return sum / count;
}

void count_rows(const MeasuredRows& rows, const RunSetting& setting, ErrorBand& band) {
  band.rows = rows.size();
  band.least_ranks = rows.front()->setting.ranks;
  for (const MeasuredError* row : rows) {
    band.least_ranks = std::min(band.least_ranks, row->setting.ranks);
    band.most_ranks = std::max(band.most_ranks, row->setting.ranks);
    band.rows_on_device += row->setting.device == setting.device ? 1 : 0;
    band.rows_with_software += row->setting.software == setting.software ? 1 : 0;
  }
}

// The quantile of sorted values; `whole` is the sum of their weights.
double quantile_of_sorted(const std::vector<WeightedValue>& values, double whole, double share) {
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

// Sorts, and returns the sum of the weights.
double sort_values(std::vector<WeightedValue>& values) {
  std::ranges::sort(values, {},
                    [](const WeightedValue& each) { return std::pair(each.value, each.weight); });
  double whole = 0.0;
  for (const WeightedValue& value : values) whole += value.weight;
  return whole;
}

Interval all_but_tails(std::vector<WeightedValue> values) {
  const double whole = sort_values(values);
  return {quantile_of_sorted(values, whole, kFewTablesTail),
          quantile_of_sorted(values, whole, 1.0 - kFewTablesTail)};
}

}  // namespace

std::optional<ErrorBand> group_band(const MeasuredRows& rows, const RunSetting& setting,
                                    std::size_t least_level) {
  if (rows.empty()) return std::nullopt;
  ErrorBand band;
  band.level = std::max(least_level, level_of(rows, setting));
  const MeasuredRows like = rows_like(rows, setting, band.level);
  band.tables = tables_of(like).size();
  count_rows(like, setting, band);
  const std::vector<WeightedValue> ratios = weighted_ratios(like);
  for (const WeightedValue& ratio : ratios) {
    band.bias += (1.0 / ratio.value - 1.0) * ratio.weight / static_cast<double>(band.tables);
  }
  band.centre = centre_of(like);
  const Interval interval = tables_of(rows).size() < kManyTables
                                ? all_but_tails(ratios)
                                : narrowest_interval(ratios, share_of_group(band.tables));
  band.low = std::min(interval.low, band.centre);
  band.high = std::max(interval.high, band.centre);
  return band;
}

double share_of_group(std::size_t tables) {
  const auto count = static_cast<double>(tables);
  return std::min(kMostOfGroup, kBandShare * (count + 1.0) / count);
}

double centre_of(const MeasuredRows& rows) {
  const std::vector<std::string> tables = tables_of(rows);
  if (tables.size() < 2) return 1.0;
  double of_centres = 0.0;
  double of_model = 0.0;
  for (const std::string& table : tables) {
    of_centres += mean_error(rows, table, shrunk_median(without_table(rows, table)));
    of_model += mean_error(rows, table, 1.0);
  }
  return of_centres < of_model ? shrunk_median(rows) : 1.0;
}

double weighted_quantile(std::vector<WeightedValue> values, double share) {
  const double whole = sort_values(values);
  return quantile_of_sorted(values, whole, share);
}

Interval narrowest_interval(std::vector<WeightedValue> values, double share) {
  const double whole = sort_values(values);
  std::optional<Interval> narrowest;
  for (int place = 0; place <= kPlaces; ++place) {
    const double from = (1.0 - share) * place / kPlaces;
    const Interval interval{quantile_of_sorted(values, whole, from),
                            quantile_of_sorted(values, whole, from + share)};
    if (!narrowest || interval.high / interval.low < narrowest->high / narrowest->low) {
      narrowest = interval;
    }
  }
  return *narrowest;
}

}  // namespace shardsim
