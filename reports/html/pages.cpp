#include "reports/pages.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/version.hpp"

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/json_writer.hpp"
#include "reports/units.hpp"

namespace shardsim {
namespace {

// Below this, data that people can read and search is worth more than a smaller page.
constexpr std::size_t kPackFrom = std::size_t{256} * 1024;

struct Section {
  const char* id;
  const char* title;
  std::string markup;
};

// From top to bottom; those without facts are empty.
std::vector<Section> sections_of(const html::Input& input) {
  return {{"time", "Where the step goes", html::time_part(input)},
          {"cost", "Cost and days", html::cost_part(input)},
          {"schedule", "Schedule", html::schedule_part(input)},
          {"memory", "Memory", html::memory_part(input)},
          {"communication", "Communication", html::communication_part(input)},
          {"links", "Links", html::links_part(input)},
          {"traffic", "Traffic from rank to rank", html::traffic_part(input)},
          {"roofline", "Roofline", html::roofline_part(input)},
          {"checks", "Checks and error band", html::checks_part(input)},
          {"assumptions", "Assumptions", html::assumptions_part(input)},
          {"metrics", "All metrics", html::metrics_part(input)},
          {"scenario", "Scenario", html::scenario_part(input)}};
}

std::string data_elements(const Result& result, const RunDetail& detail, double device_bytes) {
  const std::string json = html::detail_json(detail, device_bytes);
  const bool is_packed = json.size() >= kPackFrom;
  return fmt::format(
      "<script type=\"application/json\" id=\"result\">\n{}</script>\n"
      "<script type=\"{}\" id=\"detail\">{}</script>\n",
      html::script_json(to_json(result)), is_packed ? "application/gzip" : "application/json",
      is_packed ? html::gzip_base64(json) : html::script_json(json));
}

std::string table_of_layouts(const std::string& caption, const std::vector<LayoutRow>& rows) {
  const bool has_price =
      std::ranges::any_of(rows, [](const LayoutRow& row) { return row.usd_per_1t_tokens > 0; });
  std::vector<html::Column> columns =
      html::text_and_numbers({"layout", "step", "MFU", "tokens/s/GPU", "memory"});
  columns.front().is_wide = true;
  if (has_price) columns.push_back({"1 T tokens", true});
  html::Table table(caption, columns);
  for (const LayoutRow& row : rows) {
    std::vector<std::string> cells = {
        markup_text(row.layout), format_seconds(row.step_s), fmt::format("{:.1f} %", 100 * row.mfu),
        format_number(row.tokens_per_s_per_gpu), format_memory(row.device_bytes)};
    if (has_price) cells.push_back(html::format_usd(row.usd_per_1t_tokens));
    table.add_row(cells);
  }
  return table.markup();
}

std::string paragraph(const std::string& text) {
  return text.empty() ? text : "<p>" + markup_text(text) + "</p>\n";
}

std::string best_in_words(const LayoutPage& page) {
  if (page.ranked.empty()) return paragraph("No layout fits.");
  const LayoutRow& best = page.ranked.front();
  return paragraph(fmt::format(
             "The best layout is {}: a step of {}, {} tokens per second "
             "on each GPU, and {} of the {} of memory that a GPU has.",
             best.layout, format_seconds(best.step_s), format_number(best.tokens_per_s_per_gpu),
             format_memory(best.device_bytes), format_memory(page.capacity_bytes))) +
         paragraph(page.why);
}

}  // namespace

std::string to_html(const Result& result, const TextHeadline& headline, const RunDetail& detail) {
  const html::Input input{result, headline, detail};
  std::string links;
  std::string body = html::section("summary", "Summary", html::summary_part(input));
  for (const Section& section : sections_of(input)) {
    if (section.markup.empty()) continue;
    links += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.title);
    body += html::section(section.id, section.title, section.markup);
  }
  const std::string policy =
      fmt::format("script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; ",
                  html::report_script_hash());
  return html::page_head(policy,
                         headline.name.empty() ? "shardsim" : headline.name + " · shardsim") +
         fmt::format(
             "<body>\n<header>\n{}<nav aria-label=\"Sections\"><ul>\n{}</ul></nav>\n</header>\n"
             "<main>\n{}</main>\n<footer><p>Written by shardsim {}. Times are virtual: simulated, "
             "not measured. Charts by Apache ECharts, whose licence is in the source of this "
             "page.</p></footer>\n{}<script>{}</script>\n</body>\n</html>\n",
             html::masthead(input), links, body, version(),
             data_elements(result, detail, headline.device_memory_bytes), html::report_script());
}

std::string to_html(const LayoutPage& page) {
  const std::string assumptions = html::list_items(page.assumptions);
  const std::string front =
      page.front.empty()
          ? std::string()
          : "<figure>\n<figcaption>All simulated layouts that fit: faster to the right, smaller "
            "below.</figcaption>\n<div class=\"static\" "
            "style=\"display:block\">" +
                to_svg_scatter(page) + "</div>\n</figure>\n" +
                table_of_layouts(
                    "Pareto front: no searched layout is both faster and smaller than one of "
                    "these.",
                    page.front);
  return html::page_head("style-src 'unsafe-inline'; ", page.title + " · shardsim") +
         fmt::format(
             "<body>\n<header>\n<p class=\"muted\">shardsim: a search of layouts</p>\n"
             "<h1>{}</h1>\n<p>{}</p>\n</header>\n<main>\n{}{}{}{}</main>\n<footer><p>Written by "
             "shardsim {}. Times are virtual: simulated, not measured.</p></footer>\n</body>\n"
             "</html>\n",
             markup_text(page.title), markup_text(page.facts),
             html::section("summary", "Summary", best_in_words(page) + paragraph(page.counts)),
             html::section("ranking", "Ranking",
                           page.ranked.empty()
                               ? std::string()
                               : table_of_layouts("The best, " + page.order + ".", page.ranked)),
             html::section("front", "Speed against memory", front),
             html::section("assumptions", "Assumptions",
                           assumptions.empty() ? "" : "<ul>\n" + assumptions + "</ul>\n"),
             version());
}

}  // namespace shardsim
