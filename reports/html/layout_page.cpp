#include "reports/layout_page.hpp"

#include <fmt/format.h>

#include "sim/kernel/version.hpp"

#include "reports/html/assets.hpp"
#include "reports/html/markup.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

std::string table_of_layouts(const std::string& caption, const std::vector<LayoutRow>& rows) {
  bool has_price = false;
  for (const LayoutRow& row : rows) has_price |= row.usd_per_1t_tokens > 0;
  std::vector<html::Column> columns = {{"layout", false, true},
                                       {"step", true},
                                       {"MFU", true},
                                       {"tokens/s/GPU", true},
                                       {"memory", true}};
  if (has_price) columns.push_back({"1 T tokens", true});
  html::Table table(caption, columns);
  for (const LayoutRow& row : rows) {
    std::vector<std::string> cells = {markup_text(row.layout), format_seconds(row.step_s),
                                      fmt::format("{:.1f} %", 100 * row.mfu),
                                      format_number(row.tokens_per_s_per_gpu),
                                      format_memory(static_cast<double>(row.device_bytes))};
    if (has_price) cells.push_back(html::format_usd(row.usd_per_1t_tokens));
    table.add_row(cells);
  }
  return table.markup();
}

std::string section(const char* id, const char* title, const std::string& markup) {
  if (markup.empty()) return {};
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}"
      "</section>\n",
      id, title, markup);
}

std::string paragraph(const std::string& text) {
  return text.empty() ? text : "<p>" + markup_text(text) + "</p>\n";
}

std::string list_of(const std::vector<std::string>& sentences) {
  std::string markup;
  for (const std::string& sentence : sentences) {
    markup += "<li>" + markup_text(sentence) + "</li>\n";
  }
  return markup.empty() ? markup : "<ul>\n" + markup + "</ul>\n";
}

std::string best_in_words(const LayoutPage& page) {
  if (page.ranked.empty()) return paragraph("No layout fits.");
  const LayoutRow& best = page.ranked.front();
  return paragraph(fmt::format("The best layout is {}: a step of {}, {} tokens per second "
                               "on each GPU, and {} of the {} of memory that a GPU has.",
                               best.layout, format_seconds(best.step_s),
                               format_number(best.tokens_per_s_per_gpu),
                               format_memory(static_cast<double>(best.device_bytes)),
                               format_memory(static_cast<double>(page.capacity_bytes)))) +
         paragraph(page.why);
}

}  // namespace

std::string to_html(const LayoutPage& page) {
  const std::string front =
      page.front.empty()
          ? std::string()
          : "<figure>\n<figcaption>Every layout that was simulated and fits: to the right is "
            "faster, below is smaller.</figcaption>\n<div class=\"static\" "
            "style=\"display:block\">" +
                to_svg_scatter(page) + "</div>\n</figure>\n" +
                table_of_layouts(
                    "Nothing that was searched is both faster and smaller than one of "
                    "these.",
                    page.front);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0} · shardsim</title>\n<style>\n{1}</style>\n</head>\n<body>\n<header>\n"
      "<p class=\"muted\">shardsim: a search of layouts</p>\n<h1>{0}</h1>\n<p>{2}</p>\n</header>\n"
      "<main>\n{3}{4}{5}{6}</main>\n<footer><p>Written by shardsim {7}. Times are virtual: "
      "simulated, not measured.</p></footer>\n</body>\n</html>\n",
      markup_text(page.title), html::report_style(), markup_text(page.facts),
      section("summary", "Summary", best_in_words(page) + paragraph(page.counts)),
      section("ranking", "Ranking",
              page.ranked.empty() ? std::string()
                                  : table_of_layouts("The best, " + page.order + ".", page.ranked)),
      section("front", "Speed against memory", front),
      section("assumptions", "Assumptions", list_of(page.assumptions)), version());
}

}  // namespace shardsim
