#include <fmt/format.h>

#include "sim/accuracy/scatter_plot.hpp"
#include "sim/accuracy/validation_text.hpp"

namespace shardsim {

namespace {

constexpr const char* kPageHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>shardsim validate: predicted against measured</title>
<style>
:root { color-scheme: light dark; --ink: #1c2430; --soft: #66707d; --rule: #d9dee5; --page: #fff;
  --point: #1f6feb; --near: #8a94a3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa5b4; --rule: #343c48;
  --page: #14181e; --point: #6ea8fe; --near: #7c8798; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1240px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .2rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--rule); text-align: right; }
td { white-space: nowrap; }
th { font-weight: 600; color: var(--soft); } td.text, th.text { text-align: left; }
td.text:last-child { white-space: normal; min-width: 16rem; overflow-wrap: anywhere; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; }
svg { max-width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
.frame { fill: none; stroke: var(--near); } .grid { stroke: var(--rule); }
.exact { stroke: var(--ink); } .near { stroke: var(--near); stroke-dasharray: 4 3; }
.point { fill: var(--point); fill-opacity: .55; } .apart { fill: none; stroke: var(--soft); }
</style></head><body>
<h1>Predicted against measured</h1>
<p>Every row is a published measurement, run as a scenario through the ordinary loader. The full
line is where both are equal, dashed lines are at &#177;10&nbsp;%. Hollow points are not in the
headline. Errors are predicted / measured &#8722; 1.</p>
)";

constexpr double kGigabyte = 1e9;

// The unit in which a quantity is plotted.
double shown_unit(std::size_t quantity) { return quantity == kPeakMemory ? kGigabyte : 1.0; }
const char* shown_name(std::size_t quantity) { return quantity == kPeakMemory ? "GB" : "s"; }

std::string figures_head(const char* first) {
  return fmt::format(
      "<div class=\"scroll\"><table><tr><th class=\"text\">{}</th><th class=\"text\">quantity</th>"
      "<th>rows</th><th>mean |error|</th><th>median</th><th>90th percentile</th><th>bias</th>"
      "<th>rank correlation</th><th class=\"text\">worst row</th></tr>\n",
      first);
}

std::string figures_row(const std::string& first, std::size_t quantity,
                        const ErrorStatistics& figures, const std::string& worst) {
  const std::string correlation =
      figures.rank_correlation ? fmt::format("{:.3f}", *figures.rank_correlation) : "&#8211;";
  return fmt::format(
      "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{:.1f} %</td>"
      "<td>{:.1f} %</td><td>{:.1f} %</td><td>{:+.1f} %</td><td>{}</td><td class=\"text\">{}</td>"
      "</tr>\n",
      html_text(first), kQuantities.at(quantity).title, figures.rows, 100.0 * figures.mean_absolute,
      100.0 * figures.median_absolute, 100.0 * figures.percentile_90_absolute, 100.0 * figures.bias,
      correlation, html_text(worst));
}

std::string summary(const std::vector<ValidatedTable>& tables) {
  std::string html = figures_head("table");
  for (const ValidatedTable& table : tables) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      for (const bool headline : {true, false}) {
        const std::optional<ErrorStatistics> figures = statistics_of(table, i, headline);
        if (!figures) continue;
        html += figures_row(table.name + (headline ? "" : " (not in the headline)"), i, *figures,
                            worst_row_text(table, figures->worst, i));
      }
    }
  }
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<ErrorStatistics> figures = overall_statistics(tables, i);
    if (!figures) continue;
    html += figures_row("all", i, *figures, overall_worst_text(tables, figures->worst, i));
  }
  return html + "</table></div>\n";
}

std::string plot_of(const ValidatedTable& table, std::size_t quantity) {
  std::vector<ScatterPoint> points;
  for (const ValidatedRow& row : table.rows) {
    const std::optional<PredictedAndMeasured>& pair = row.quantities.at(quantity);
    if (!pair) continue;
    const double unit = shown_unit(quantity);
    points.push_back({{pair->predicted / unit, pair->measured / unit},
                      fmt::format("line {}: {}", row.line, row.label),
                      row.apart.empty()});
  }
  if (points.empty()) return {};
  return fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n",
                     kQuantities.at(quantity).title, scatter_plot(points, shown_name(quantity)));
}

std::string section_of(const ValidatedTable& table) {
  std::string html = fmt::format(
      "<h2 id=\"{0}\">{0}</h2>\n<p>{1}. Trust {2}; {3} of {4} rows of {5}.</p>\n"
      "<p class=\"soft\">{6}</p>\n<div class=\"plots\">\n",
      html_text(table.name), html_text(table.title), html_text(table.trust), table.rows.size(),
      table.rows_in_file, html_text(table.file), html_text(table.assuming));
  for (std::size_t i = 0; i < kNumQuantities; ++i) html += plot_of(table, i);
  html += "</div>\n";
  const std::vector<RefusedRows> refused = refused_rows(table);
  if (refused.empty()) return html;
  html += "<p>Not represented:</p><ul>\n";
  for (const RefusedRows& rows : refused) {
    html += fmt::format("<li>lines {}: {}</li>\n", runs_text(rows.lines), html_text(rows.reason));
  }
  return html + "</ul>\n";
}

}  // namespace

std::string validation_html(const std::vector<ValidatedTable>& tables) {
  std::string html = kPageHead + summary(tables);
  for (const ValidatedTable& table : tables) html += section_of(table);
  return html + "</body></html>\n";
}

}  // namespace shardsim
