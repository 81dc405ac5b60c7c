#include <algorithm>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/units.hpp"
#include "scenarios/source_text.hpp"
#include "sim/accuracy/residuals.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kTextWidth = 100;
constexpr std::size_t kTextIndent = 6;
// The others, and those that explain nothing, are in JSON.
constexpr std::size_t kShownTraits = 4;

std::string wrapped(const std::string& line) {
  std::string text;
  for (const std::string& part : wrap_to_width(line, kTextWidth, kTextIndent)) text += part + "\n";
  return text;
}

std::string all_tables_text(std::span<const ValidatedTable> tables, std::size_t trait) {
  std::string line;
  for (const TraitGroup& group : trait_groups(tables, trait)) {
    line += fmt::format("{}{}: {:.1f} % ({:+.1f}, {} row{})", line.empty() ? "" : "; ",
                        printable(group.value), kPercent * group.mean_absolute,
                        kPercent * group.bias, group.rows, group.rows == 1 ? "" : "s");
  }
  return wrapped(fmt::format("  by {}: {}", kTraits.at(trait).title, line));
}

std::string growth_text(const ErrorGrowth& growth) {
  std::string line;
  for (const TraitGroup& group : growth.groups) {
    line += fmt::format("{}{}: {:+.1f} ({})", line.empty() ? "" : "; ", printable(group.value),
                        kPercent * group.bias, group.rows);
  }
  return wrapped(fmt::format("    {}, explains {:.0f} %, spread {:.1f} %: {}",
                             kTraits.at(growth.trait).title, kPercent * *growth.explained,
                             kPercent * growth.spread, line));
}

std::string located_text(const ValidatedTable& table) {
  const std::vector<ErrorGrowth> growths = located_residuals(table);
  if (growths.empty()) return {};
  const std::optional<QuantityFigures> figures = figures_of({&table, 1}, kStepTime, true);
  std::string text = fmt::format("  {} ({} rows, mean |error| {:.1f} %)\n", printable(table.name),
                                 figures->errors.rows, kPercent * figures->errors.mean_absolute);
  for (std::size_t i = 0; i < std::min(growths.size(), kShownTraits); ++i) {
    if (growths[i].explained.value_or(0.0) > 0.0) text += growth_text(growths[i]);
  }
  return text;
}

std::string residual_line(std::span<const ValidatedTable> tables, const StepResidual& residual,
                          std::size_t width) {
  const ValidatedTable& table = tables[residual.table];
  const ValidatedRow& row = table.rows[residual.row];
  const PredictedAndMeasured& pair = *row.quantities.at(kStepTime);
  std::string line = fmt::format("  {:<{}}{:>5}{:>+8.1f} %{:>10.3f}{:>10.3f}{:>10.3f}",
                                 printable(table.name), width, row.line, kPercent * pair.error(),
                                 pair.measured, pair.predicted, pair.measured - pair.predicted);
  for (std::size_t i = 0; i < kStepParts.size(); ++i) {
    line += row.parts ? fmt::format("{:>14.3f}", row.parts->at(i)) : fmt::format("{:>14}", "-");
  }
  return line + "\n";
}

std::string largest_text(std::span<const ValidatedTable> tables) {
  const std::vector<StepResidual> largest = largest_residuals(tables);
  if (largest.empty()) return {};
  std::size_t width = 6;
  for (const StepResidual& each : largest) {
    width = std::max(width, tables[each.table].name.size() + 1);
  }
  std::string text = fmt::format(
      "largest errors of step time, at most {} of a table; seconds, and the parts of the "
      "prediction\n  {:<{}}{:>5}{:>10}{:>10}{:>10}{:>10}",
      kMostResidualsOfTable, "", width, "line", "error", "measured", "predicted", "missing");
  for (const StepPart& part : kStepParts) text += fmt::format("{:>14}", part.title);
  text += "\n";
  for (const StepResidual& each : largest) text += residual_line(tables, each, width);
  return text;
}

}  // namespace

std::string residuals_text(std::span<const ValidatedTable> tables) {
  const std::string largest = largest_text(tables);
  if (largest.empty()) return {};
  std::string text = "step time of all tables: mean |error| (bias in %, rows)\n";
  for (std::size_t trait = 0; trait < kTraits.size(); ++trait) {
    if (kTraits.at(trait).is_of_all) text += all_tables_text(tables, trait);
  }
  text += largest;
  std::string located;
  for (const ValidatedTable& table : tables) located += located_text(table);
  if (located.empty()) return text;
  return text +
         fmt::format(
             "what errors vary with, in tables of {} rows and more with a mean |error| above "
             "{:.0f} %: bias in % (rows)\n{}",
             kLeastLocatedRows, kPercent * kLeastLocatedError, located);
}

}  // namespace shardsim
