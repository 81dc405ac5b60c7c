#include "sim/accuracy/residuals.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace shardsim {

namespace {

struct TracedError {
  TraitValue value;
  double error = 0.0;
};

std::vector<TracedError> traced_errors(std::span<const ValidatedTable> tables, std::size_t trait) {
  std::vector<TracedError> errors;
  for (const ValidatedTable& table : tables) {
    for (const std::size_t index : rows_with(table, kStepTime, true)) {
      const ValidatedRow& row = table.rows[index];
      errors.push_back({row.traits.at(trait), row.quantities.at(kStepTime)->error()});
    }
  }
  return errors;
}

// Errors by group, in the order of printing.
using Grouped = std::vector<std::pair<std::string, std::vector<double>>>;

// Words in the order in which they appear.
Grouped by_word(const std::vector<TracedError>& errors) {
  Grouped groups;
  for (const TracedError& each : errors) {
    auto found = std::ranges::find(groups, each.value.text, &Grouped::value_type::first);
    if (found == groups.end()) found = groups.insert(groups.end(), {each.value.text, {}});
    found->second.push_back(each.error);
  }
  return groups;
}

// The power of two at or below a number, counted in steps of `bits`; below 1 all are one range.
int range_of(double number, int bits) { return number < 1.0 ? -1 : std::ilogb(number) / bits; }

std::string range_text(int range, int bits) {
  if (range < 0) return "below 1";
  const double first = std::ldexp(1.0, range * bits);
  const double last = std::ldexp(first, bits) - 1.0;
  return first == last ? fmt::format("{:.0f}", first)
                       : fmt::format("{:.0f} to {:.0f}", first, last);
}

// REQUIRES: each has a number.
Grouped by_number(const std::vector<TracedError>& errors) {
  std::map<double, std::vector<double>> values;
  for (const TracedError& each : errors) values[*each.value.number].push_back(each.error);
  Grouped groups;
  if (values.size() <= kMostGroups) {
    for (auto& [number, found] : values) {
      groups.emplace_back(fmt::format("{}", number), std::move(found));
    }
    return groups;
  }
  for (int bits = 1;; ++bits) {
    std::map<int, std::vector<double>> ranges;
    for (const TracedError& each : errors) {
      ranges[range_of(*each.value.number, bits)].push_back(each.error);
    }
    if (ranges.size() > kMostGroups) continue;
    for (auto& [range, found] : ranges) {
      groups.emplace_back(range_text(range, bits), std::move(found));
    }
    return groups;
  }
}

Grouped grouped(const std::vector<TracedError>& errors) {
  const bool are_numbers =
      std::ranges::all_of(errors, [](const TracedError& each) { return !!each.value.number; });
  return are_numbers ? by_number(errors) : by_word(errors);
}

std::vector<TraitGroup> figures_of_groups(const Grouped& groups) {
  std::vector<TraitGroup> figures;
  for (const auto& [value, errors] : groups) {
    TraitGroup group{value, errors.size(), 0.0, 0.0};
    for (const double error : errors) {
      group.mean_absolute += std::abs(error);
      group.bias += error;
    }
    group.mean_absolute /= static_cast<double>(errors.size());
    group.bias /= static_cast<double>(errors.size());
    figures.push_back(std::move(group));
  }
  return figures;
}

double squares_around(const std::vector<double>& errors, double mean) {
  double sum = 0.0;
  for (const double error : errors) sum += (error - mean) * (error - mean);
  return sum;
}

// Epsilon squared: 1 less the variance within groups over that of all, each by its degrees of
// freedom.
std::optional<double> explained_share(const Grouped& groups,
                                      const std::vector<TraitGroup>& figures) {
  std::vector<double> all;
  double within = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<double>& errors = groups[i].second;
    within += squares_around(errors, figures[i].bias);
    sum += figures[i].bias * static_cast<double>(errors.size());
    all.insert(all.end(), errors.begin(), errors.end());
  }
  if (all.size() <= groups.size()) return std::nullopt;
  const double total = squares_around(all, sum / static_cast<double>(all.size()));
  if (total == 0.0) return std::nullopt;
  return 1.0 - within / total * static_cast<double>(all.size() - 1) /
                   static_cast<double>(all.size() - groups.size());
}

double spread_of(const std::vector<TraitGroup>& groups) {
  const auto [least, most] = std::ranges::minmax(groups, {}, &TraitGroup::bias);
  return most.bias - least.bias;
}

}  // namespace

std::vector<StepResidual> largest_residuals(std::span<const ValidatedTable> tables) {
  std::vector<std::pair<double, StepResidual>> all;
  for (std::size_t table = 0; table < tables.size(); ++table) {
    for (const std::size_t row : rows_with(tables[table], kStepTime, true)) {
      const double error = tables[table].rows[row].quantities.at(kStepTime)->error();
      all.push_back({std::abs(error), {table, row}});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &std::pair<double, StepResidual>::first);
  std::vector<StepResidual> largest;
  for (const auto& [error, residual] : all) {
    if (largest.size() == kMostResiduals) break;
    const auto of_table = std::ranges::count(largest, residual.table, &StepResidual::table);
    if (static_cast<std::size_t>(of_table) < kMostResidualsOfTable) largest.push_back(residual);
  }
  return largest;
}

std::vector<TraitGroup> trait_groups(std::span<const ValidatedTable> tables, std::size_t trait) {
  return figures_of_groups(grouped(traced_errors(tables, trait)));
}

std::vector<ErrorGrowth> located_residuals(const ValidatedTable& table) {
  const std::optional<QuantityFigures> figures = figures_of({&table, 1}, kStepTime, true);
  if (!figures || figures->errors.rows < kLeastLocatedRows ||
      figures->errors.mean_absolute <= kLeastLocatedError) {
    return {};
  }
  std::vector<ErrorGrowth> growths;
  for (std::size_t trait = 0; trait < kTraits.size(); ++trait) {
    const Grouped groups = grouped(traced_errors({&table, 1}, trait));
    if (groups.size() < 2) continue;
    ErrorGrowth growth{trait, figures_of_groups(groups), 0.0, std::nullopt};
    growth.spread = spread_of(growth.groups);
    growth.explained = explained_share(groups, growth.groups);
    growths.push_back(std::move(growth));
  }
  std::ranges::stable_sort(growths, std::greater<>(), [](const ErrorGrowth& growth) {
    return growth.explained.value_or(-1.0);
  });
  return growths;
}

}  // namespace shardsim
