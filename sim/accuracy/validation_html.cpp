#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"
#include "sim/accuracy/missing_columns.hpp"
#include "sim/accuracy/one_constant.hpp"
#include "sim/accuracy/residuals.hpp"
#include "sim/accuracy/validated_table.hpp"

namespace shardsim {

namespace {

struct ScatterPoint {
  PredictedAndMeasured pair;
  std::string label;     // Shown when it is pointed at.
  bool headline = true;  // Else drawn hollow.
};

constexpr double kSize = 360.0;
constexpr double kLeft = 52.0;
constexpr double kTop = 10.0;
constexpr double kBottom = 40.0;
constexpr double kRight = 12.0;
// Wide enough to tell the lines at +-10 % apart.
constexpr double kLeastDecades = 0.6;

// Both axes: from `first` on over `decades` powers of ten.
struct LogRange {
  double first = 0.0;
  double decades = 1.0;

  [[nodiscard]] double place(double value) const { return (std::log10(value) - first) / decades; }
  [[nodiscard]] double x(double value) const { return kLeft + kSize * place(value); }
  [[nodiscard]] double y(double value) const { return kTop + kSize * (1.0 - place(value)); }
};

LogRange range_of(const std::vector<ScatterPoint>& points) {
  double least = points.front().pair.measured;
  double most = least;
  for (const ScatterPoint& point : points) {
    least = std::min({least, point.pair.measured, point.pair.predicted});
    most = std::max({most, point.pair.measured, point.pair.predicted});
  }
  const double low = std::log10(least);
  const double high = std::log10(most);
  const double middle = (low + high) / 2.0;
  const double decades = std::max(1.1 * (high - low), kLeastDecades);
  return {middle - decades / 2.0, decades};
}

// 1, 2 and 5 times the powers of ten; over many decades only the powers.
std::vector<double> ticks_of(const LogRange& range) {
  std::vector<double> ticks;
  const auto first = static_cast<int>(std::floor(range.first));
  const auto last = static_cast<int>(std::ceil(range.first + range.decades));
  for (int power = first; power <= last; ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (range.decades > 3.0 && digit != 1.0) continue;
      const double value = digit * std::pow(10.0, power);
      const double place = range.place(value);
      if (place >= 0.0 && place <= 1.0) ticks.push_back(value);
    }
  }
  return ticks;
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     style, x1, y1, x2, y2);
}

std::string axes(const LogRange& range, const std::string& unit) {
  std::string svg = fmt::format(
      "<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", kLeft,
      kTop, kSize, kSize);
  for (const double tick : ticks_of(range)) {
    const double x = range.x(tick);
    const double y = range.y(tick);
    svg += line(x, kTop, x, kTop + kSize, "grid");
    svg += line(kLeft, y, kLeft + kSize, y, "grid");
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g}</text>", x,
                       kTop + kSize + 15.0, tick);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>",
                       kLeft - 6.0, y + 4.0, tick);
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured, {}</text>",
                     kLeft + kSize / 2.0, kTop + kSize + 33.0, unit);
  const double middle = kTop + kSize / 2.0;
  svg += fmt::format(
      "<text x=\"12\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {0:.1f})\">"
      "predicted, {1}</text>",
      middle, unit);
  return svg;
}

// predicted = factor x measured, as far as it is within the frame.
std::string ratio_line(const LogRange& range, double factor, const char* style) {
  const double shift = std::log10(factor) / range.decades;
  const double from = std::max(0.0, -shift);
  const double to = std::min(1.0, 1.0 - shift);
  return line(kLeft + kSize * from, kTop + kSize * (1.0 - from - shift), kLeft + kSize * to,
              kTop + kSize * (1.0 - to - shift), style);
}

// `text` escaped for HTML, between tags or quotes.
std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  }
  return out;
}

// An SVG of points, measured to the right and predicted upwards, both logarithmic over the same
// range, with the diagonal and lines at +-10 %. `unit` labels the axes. The same points give the
// same bytes. REQUIRES: !points.empty().
std::string scatter_plot(const std::vector<ScatterPoint>& points, const std::string& unit) {
  const LogRange range = range_of(points);
  const double width = kLeft + kSize + kRight;
  const double height = kTop + kSize + kBottom;
  std::string svg = fmt::format(
      "<svg class=\"scatter\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" "
      "aria-label=\"predicted against measured\">\n",
      width, height);
  svg += axes(range, html_text(unit)) + "\n";
  svg += ratio_line(range, 1.0, "exact");
  svg += ratio_line(range, 1.1, "near");
  svg += ratio_line(range, 0.9, "near") + "\n";
  for (const ScatterPoint& point : points) {
    svg += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: predicted {:.4g}, "
        "measured {:.4g} {} ({:+.1f} %)</title></circle>\n",
        point.headline ? "point" : "apart", range.x(point.pair.measured),
        range.y(point.pair.predicted), html_text(point.label), point.pair.predicted,
        point.pair.measured, html_text(unit), 100.0 * point.pair.error());
  }
  return svg + "</svg>\n";
}

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

std::string figures_row(const std::string& first, const QuantityFigures& figures,
                        const std::string& worst) {
  const ErrorStatistics& errors = figures.errors;
  const std::string correlation =
      errors.rank_correlation ? fmt::format("{:.3f}", *errors.rank_correlation) : "&#8211;";
  return fmt::format(
      "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{:.1f} %</td>"
      "<td>{:.1f} %</td><td>{:.1f} %</td><td>{:+.1f} %</td><td>{}</td><td class=\"text\">{}</td>"
      "</tr>\n",
      html_text(first), kQuantities.at(figures.quantity).title, errors.rows,
      100.0 * errors.mean_absolute, 100.0 * errors.median_absolute,
      100.0 * errors.percentile_90_absolute, 100.0 * errors.bias, correlation, html_text(worst));
}

std::string summary(const std::vector<ValidatedTable>& tables) {
  std::string html = figures_head("table");
  for (const ValidatedTable& table : tables) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      for (const bool headline : {true, false}) {
        const std::string first = table.name + (headline ? "" : " (not in the headline)");
        const std::optional<QuantityFigures> figures = figures_of({&table, 1}, i, headline);
        if (figures) html += figures_row(first, *figures, figures->worst_row);
      }
    }
  }
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    const std::optional<QuantityFigures> figures = figures_of(tables, i, true);
    if (!figures) continue;
    html += figures_row("all", *figures, figures->worst_table + " " + figures->worst_row);
  }
  return html + "</table></div>\n";
}

// The points of one quantity of a table, in the unit in which they are plotted.
void add_points(const ValidatedTable& table, std::size_t quantity, const std::string& before,
                std::vector<ScatterPoint>& points) {
  for (const ValidatedRow& row : table.rows) {
    const std::optional<PredictedAndMeasured>& pair = row.quantities.at(quantity);
    if (!pair) continue;
    const double unit = shown_unit(quantity);
    points.push_back({{pair->predicted / unit, pair->measured / unit},
                      fmt::format("{}line {}: {}", before, row.line, row.label),
                      row.apart.empty()});
  }
}

std::string figure_of(std::string_view caption, const std::vector<ScatterPoint>& points,
                      std::size_t quantity) {
  if (points.empty()) return {};
  return fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", caption,
                     scatter_plot(points, shown_name(quantity)));
}

std::string plot_of(const ValidatedTable& table, std::size_t quantity) {
  std::vector<ScatterPoint> points;
  add_points(table, quantity, "", points);
  return figure_of(kQuantities.at(quantity).title, points, quantity);
}

// Every table in one plot: the first sight of the page. With one table its own plot is that.
std::string plots_of_all(const std::vector<ValidatedTable>& tables) {
  std::string html;
  for (std::size_t quantity = 0; quantity < kNumQuantities; ++quantity) {
    std::vector<ScatterPoint> points;
    for (const ValidatedTable& table : tables) {
      add_points(table, quantity, tables.size() > 1 ? table.name + ", " : "", points);
    }
    std::string caption =
        fmt::format("{}, {} rows", kQuantities.at(quantity).title, format_count(points.size()));
    if (const std::optional<QuantityFigures> figures = figures_of(tables, quantity, true)) {
      caption += fmt::format(": mean |error| {:.1f} %, bias {:+.1f} %",
                             100.0 * figures->errors.mean_absolute, 100.0 * figures->errors.bias);
    }
    html += figure_of(caption, points, quantity);
  }
  return html;
}

std::string groups_of_section(const ValidatedTable& table) {
  const std::vector<std::string> groups = groups_of(table);
  if (groups.empty()) return {};
  std::string html = figures_head("group");
  for (const std::string& group : groups) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      const std::optional<QuantityFigures> figures = figures_of({&table, 1}, i, true, group);
      if (figures) html += figures_row(group, *figures, figures->worst_row);
    }
  }
  return html + "</table></div>\n";
}

std::string one_constant_section(std::span<const ValidatedTable> tables, std::size_t which) {
  const std::optional<OneConstantFigures> figures = one_constant_figures(tables, which);
  if (!figures) return {};
  return fmt::format(
      "<p>A formula with one constant of other tables is {:.1f} % off on {} rows, predictions are "
      "{:.1f} % off there.</p>\n",
      100.0 * figures->formula, figures->rows, 100.0 * figures->own);
}

std::string not_represented(const ValidatedTable& table) {
  const std::vector<RefusedRows> refused = refused_rows(table);
  if (refused.empty()) return {};
  std::string html = "<p>Not represented:</p><ul>\n";
  for (const RefusedRows& rows : refused) {
    html += fmt::format("<li>lines {}: {}</li>\n", runs_text(rows.lines), html_text(rows.reason));
  }
  html += "</ul>\n";
  const std::string unlocked = missing_columns_text(table);
  return unlocked.empty() ? html : html + "<pre>" + html_text(unlocked) + "</pre>\n";
}

// Columns of figures stand at the right.
std::string of_figures(const std::string& markup) {
  return markup.empty() ? markup : "<div class=\"figures\">\n" + markup + "</div>\n";
}

std::string section_of(std::span<const ValidatedTable> tables, std::size_t which) {
  const ValidatedTable& table = tables[which];
  std::string markup = fmt::format(
      "<p>{}. Trust {}; {} of {} rows of {}.</p>\n<p class=\"muted\">{}</p>\n<div "
      "class=\"plots\">\n",
      html_text(table.title), html_text(table.trust), table.rows.size(), table.rows_in_file,
      html_text(table.file), html_text(table.assuming));
  // One table's plots are those of all rows.
  for (std::size_t i = 0; i < kNumQuantities && tables.size() > 1; ++i) markup += plot_of(table, i);
  markup += "</div>\n" + one_constant_section(tables, which) + groups_of_section(table) +
            not_represented(table);
  return html::folded_section(html_text(table.name), html_text(table.name),
                              count_of(table.rows.size(), "row"), of_figures(markup));
}

}  // namespace

std::string validation_html(const std::vector<ValidatedTable>& tables) {
  html::PlainPage page;
  page.eyebrow = "shardsim validate";
  page.title = "Predicted against measured";
  page.facts =
      "Every row is a published measurement, run as a scenario through the ordinary loader. Errors "
      "are predicted / measured - 1.";
  page.footer = "Hollow points are not in the headline.";
  page.main = html::section(
      "summary", "All rows",
      "<p>The full line is where both are equal, dashed lines are at &#177;10&nbsp;%. Hollow "
      "points "
      "are not in the headline. Point at one to see its row.</p>\n<div class=\"plots\">\n" +
          plots_of_all(tables) + "</div>\n");
  page.main += html::folded_section("figures", "Errors by table", count_of(tables.size(), "table"),
                                    of_figures(summary(tables)));
  page.main += html::folded_section("errors", "Largest errors, and what they vary with", "",
                                    of_figures(residuals_html(tables)));
  for (std::size_t which = 0; which < tables.size(); ++which)
    page.main += section_of(tables, which);
  return html::plain_page(page);
}

}  // namespace shardsim
