#include <algorithm>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "sim/accuracy/residuals.hpp"

namespace shardsim {

namespace {

std::string seconds_cell(double seconds) { return fmt::format("<td>{:.3f}</td>", seconds); }

std::string residual_row(std::span<const ValidatedTable> tables, const StepResidual& residual) {
  const ValidatedTable& table = tables[residual.table];
  const ValidatedRow& row = table.rows[residual.row];
  const PredictedAndMeasured& pair = *row.quantities.at(kStepTime);
  std::string html = fmt::format(
      "<tr><td class=\"text\">{}</td><td>{}</td><td>{:+.1f} %</td>{}{}{}", markup_text(table.name),
      row.line, 100.0 * pair.error(), seconds_cell(pair.measured), seconds_cell(pair.predicted),
      seconds_cell(pair.measured - pair.predicted));
  for (std::size_t i = 0; i < kStepParts.size(); ++i) {
    html += row.parts ? seconds_cell(row.parts->at(i)) : "<td>&#8211;</td>";
  }
  return html + fmt::format("<td class=\"text\">{}</td></tr>\n", markup_text(row.label));
}

std::string largest_section(std::span<const ValidatedTable> tables) {
  const std::vector<StepResidual> largest = largest_residuals(tables);
  if (largest.empty()) return {};
  std::string html = fmt::format(
      "<h2>Largest errors of step time</h2>\n<p>At most {} of a table, in seconds: what is missing "
      "in the prediction, and its parts.</p>\n<div class=\"scroll\"><table><tr><th "
      "class=\"text\">table</th><th>line</th><th>error</th><th>measured</th><th>predicted</th>"
      "<th>missing</th>",
      kMostResidualsOfTable);
  for (const StepPart& part : kStepParts) html += fmt::format("<th>{}</th>", part.title);
  html += "<th class=\"text\">row</th></tr>\n";
  for (const StepResidual& each : largest) html += residual_row(tables, each);
  return html + "</table></div>\n";
}

std::string growth_row(const ValidatedTable& table, const ErrorGrowth& growth) {
  std::string groups;
  for (const TraitGroup& group : growth.groups) {
    groups += fmt::format("{}{}: {:+.1f} % ({})", groups.empty() ? "" : "; ",
                          markup_text(group.value), 100.0 * group.bias, group.rows);
  }
  const std::string share =
      growth.explained ? fmt::format("{:.0f} %", 100.0 * *growth.explained) : "&#8211;";
  return fmt::format(
      "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{:.1f} %</td><td "
      "class=\"text\">{}</td></tr>\n",
      markup_text(table.name), kTraits.at(growth.trait).title, share, 100.0 * growth.spread,
      groups);
}

std::string growth_section(std::span<const ValidatedTable> tables) {
  std::string rows;
  for (const ValidatedTable& table : tables) {
    for (const ErrorGrowth& growth : located_residuals(table)) rows += growth_row(table, growth);
  }
  if (rows.empty()) return {};
  return fmt::format(
      "<h2>What errors vary with</h2>\n<p>Tables of {} rows and more whose mean |error| is above "
      "{:.0f} %. Share: how much of the errors' variance lies between the groups.</p>\n<div "
      "class=\"scroll\"><table><tr><th class=\"text\">table</th><th class=\"text\">groups by</th>"
      "<th>share</th><th>spread</th><th class=\"text\">bias (rows) of each</th></tr>\n{}"
      "</table></div>\n",
      kLeastLocatedRows, 100.0 * kLeastLocatedError, rows);
}

}  // namespace

std::string residuals_html(std::span<const ValidatedTable> tables) {
  return largest_section(tables) + growth_section(tables);
}

}  // namespace shardsim
