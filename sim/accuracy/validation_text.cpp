#include <algorithm>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"
#include "sim/accuracy/bands_text.hpp"
#include "sim/accuracy/missing_columns.hpp"
#include "sim/accuracy/one_constant.hpp"
#include "sim/accuracy/residuals.hpp"
#include "sim/accuracy/validated_table.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kLabelWidth = 20;

// Room for the longest group of a table.
std::size_t label_width(const std::vector<std::string>& groups) {
  std::size_t width = kLabelWidth;
  for (const std::string& group : groups) width = std::max(width, group.size() + 3);
  return width;
}

std::string figures_line(const std::string& what, std::size_t width, const ErrorStatistics& errors,
                         const std::string& worst) {
  const std::string correlation =
      errors.rank_correlation ? fmt::format("{:.3f}", *errors.rank_correlation) : "-";
  return fmt::format("  {:<{}}{:>5}{:>9.1f} %{:>8.1f} %{:>8.1f} %{:>+8.1f} %{:>8}   {}\n", what,
                     width, errors.rows, kPercent * errors.mean_absolute,
                     kPercent * errors.median_absolute, kPercent * errors.percentile_90_absolute,
                     kPercent * errors.bias, correlation, worst);
}

std::string header_line(std::size_t width = kLabelWidth) {
  return fmt::format("  {:<{}}{:>5}{:>11}{:>10}{:>10}{:>10}{:>8}   {}\n", "", width, "rows",
                     "mean|err|", "median", "90th pct", "bias", "rank r", "worst row");
}

// The first reason why a compared row is not in the headline.
std::string why_apart(const ValidatedTable& table) {
  for (const ValidatedRow& row : table.rows) {
    if (!row.apart.empty() && row.refused.empty()) return row.apart;
  }
  return {};
}

// The figures of one group of the headline's rows.
std::string group_text(const ValidatedTable& table, const std::string& group, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<QuantityFigures> figures = figures_of({&table, 1}, i, true, group);
    if (!figures) continue;
    const std::string what = i == kStepTime ? "" : fmt::format(", {}", kQuantities.at(i).title);
    text += figures_line("  " + printable(group) + what, width, figures->errors,
                         fmt::format("line {}", figures->worst_line));
  }
  return text;
}

// "a formula with one constant: 31.2 % ..."; nothing where no other table has such GPUs.
std::string one_constant_text(std::span<const ValidatedTable> tables, std::size_t which) {
  const std::optional<OneConstantFigures> figures = one_constant_figures(tables, which);
  if (!figures) return {};
  std::string constants;
  for (const OneConstantFigures::Constant& each : figures->constants) {
    constants += fmt::format("{}{:.1f} % of the peak, the median of {} other table{} of {}",
                             constants.empty() ? "" : "; ", kPercent * each.share, each.tables,
                             each.tables == 1 ? "" : "s", each.generation);
  }
  return fmt::format(
      "  one constant: {:.1f} % on {} row{}, where predictions are {:.1f} % off ({})\n",
      kPercent * figures->formula, figures->rows, figures->rows == 1 ? "" : "s",
      kPercent * figures->own, constants);
}

std::string table_text(std::span<const ValidatedTable> tables, std::size_t which) {
  const ValidatedTable& table = tables[which];
  std::string text = fmt::format("{}: {}, trust {}\n", printable(table.name),
                                 printable(table.title, 400), printable(table.trust));
  text += table.stride == 1 ? fmt::format("  {} rows\n", table.rows_in_file)
                            : fmt::format("  {} of {} rows: every {}th from the first\n",
                                          table.rows.size(), table.rows_in_file, table.stride);
  const std::vector<std::string> groups = groups_of(table);
  const std::size_t width = label_width(groups);
  text += header_line(width);
  for (const bool headline : {true, false}) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      const std::string what = fmt::format("{}{}", kQuantities.at(i).title, headline ? "" : " *");
      const std::optional<QuantityFigures> figures = figures_of({&table, 1}, i, headline);
      if (figures) text += figures_line(what, width, figures->errors, figures->worst_row);
    }
  }
  text += one_constant_text(tables, which);
  for (const std::string& group : groups) text += group_text(table, group, width);
  if (const std::string why = why_apart(table); !why.empty()) {
    text += fmt::format("  * not in the headline: {}\n", why);
  }
  if (const auto count = std::ranges::count(table.rows, false, &ValidatedRow::fits); count > 0) {
    text += fmt::format("  {} rows ran when measured, but are predicted not to fit\n", count);
  }
  for (const RefusedRows& refused : refused_rows(table)) {
    text += fmt::format("  not represented, {} row{} ({} {}): {}\n", refused.lines.size(),
                        refused.lines.size() == 1 ? "" : "s",
                        refused.lines.size() == 1 ? "line" : "lines", runs_text(refused.lines),
                        refused.reason);
  }
  return text + missing_columns_text(table) + "\n";
}

}  // namespace

std::string runs_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end - i == 1 ? fmt::format("{}", numbers[i])
                         : fmt::format("{}-{}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string validation_text(const std::vector<ValidatedTable>& tables) {
  std::string text;
  std::size_t all = 0;
  std::size_t refused = 0;
  for (std::size_t which = 0; which < tables.size(); ++which) {
    const ValidatedTable& table = tables[which];
    text += table_text(tables, which);
    all += table.rows.size();
    for (const RefusedRows& rows : refused_rows(table)) refused += rows.lines.size();
  }
  text += fmt::format("all {} tables: rows that are confirmed, of trust A or B\n{}", tables.size(),
                      header_line());
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<QuantityFigures> figures = figures_of(tables, i, true);
    if (!figures) continue;
    text += figures_line(std::string(kQuantities.at(i).title), kLabelWidth, figures->errors,
                         figures->worst_table + " " + figures->worst_row);
  }
  text += fmt::format("  {} of {} rows are not represented; each is listed above\n", refused, all);
  text += residuals_text(tables) + bands_text(measured_errors_of(tables));
  text +=
      "errors are predicted / measured - 1; bias is their mean, above 0 where too slow or too "
      "large\none constant: FLOPs at that share of the peak, and (p - 1) / (v m) more for a "
      "pipeline\n";
  return text;
}

}  // namespace shardsim
