#include "reports/html/bars.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reports/html/markup.hpp"

namespace shardsim::html {
namespace {

// A place along the chart in percent of its width.
double place(const BarChart& chart, double value) {
  return std::clamp(100 * (value - chart.least) / (chart.full - chart.least), 0.0, 100.0);
}

std::string part_markup(const BarChart& chart, const BarPart& part) {
  const double left = place(chart, part.begin);
  const double width = place(chart, part.begin + part.length) - left;
  const std::string color =
      part.ink.empty() ? std::string() : fmt::format(";background:var(--{})", part.ink);
  const std::string title =
      part.name.empty() ? std::string() : fmt::format(" title=\"{}\"", markup_text(part.name));
  return fmt::format("<i{} style=\"left:{:.3f}%;width:{:.3f}%{}\"{}></i>",
                     part.ink.empty() ? " class=\"outline\"" : "", left, width, color, title);
}

std::string row_markup(const BarChart& chart, const BarRow& row) {
  std::string track;
  for (const BarPart& part : row.parts) track += part_markup(chart, part);
  if (chart.line) {
    track += fmt::format("<b style=\"left:{:.3f}%\"></b>", place(chart, *chart.line));
  }
  return fmt::format(
      "<li{}><span class=\"name\">{}</span><span class=\"amount\">{}</span><span "
      "class=\"track\">{}</span></li>\n",
      row.is_whole ? " class=\"whole\"" : "", markup_text(row.name), markup_text(row.amount),
      track);
}

}  // namespace

std::string bar_chart(const BarChart& chart) {
  if (chart.rows.empty() || !(chart.full > chart.least)) return {};
  std::string rows;
  for (const BarRow& row : chart.rows) rows += row_markup(chart, row);
  const std::string caption = chart.caption.empty() ? std::string()
                                                    : fmt::format("<figcaption>{}</figcaption>\n",
                                                                  markup_text(chart.caption));
  return fmt::format(
      "<figure class=\"bar-chart\">\n<h3>{}</h3>\n{}<ul class=\"bars\">\n{}</ul>\n{}</figure>\n",
      markup_text(chart.title), caption, rows, more_on_screen(chart.rows.size(), kBarsOnPaper));
}

std::string ink_legend(const std::vector<InkName>& inks) {
  std::string items;
  for (const InkName& ink : inks) {
    items += fmt::format("<li><i style=\"background:var(--{})\"></i>{}</li>\n", ink.ink,
                         markup_text(ink.name));
  }
  return items.empty() ? items : "<ul class=\"key\">\n" + items + "</ul>\n";
}

}  // namespace shardsim::html
