#include "reports/html_report.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/version.hpp"

#include "reports/html/assets.hpp"
#include "reports/html/detail_json.hpp"
#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/json_writer.hpp"

namespace shardsim {

namespace {

// Below this, data that people can read and search is worth more than a smaller page.
constexpr std::size_t kPackFrom = std::size_t{256} * 1024;

struct Section {
  const char* id;
  const char* title;
  std::string markup;
};

std::vector<Section> sections_of(const html::Input& input) {
  std::vector<Section> sections;
  const auto add = [&sections](const char* id, const char* title, std::string markup) {
    if (!markup.empty()) sections.push_back({id, title, std::move(markup)});
  };
  add("time", "Where the step goes", html::time_part(input));
  add("cost", "Cost and days", html::cost_part(input));
  add("schedule", "Schedule", html::schedule_part(input));
  add("memory", "Memory", html::memory_part(input));
  add("communication", "Communication", html::communication_part(input));
  add("links", "Links", html::links_part(input));
  add("traffic", "Traffic from rank to rank", html::traffic_part(input));
  add("roofline", "Roofline", html::roofline_part(input));
  add("checks", "Checks and error band", html::checks_part(input));
  add("assumptions", "Assumptions", html::assumptions_part(input));
  add("metrics", "All metrics", html::metrics_part(input));
  add("scenario", "Scenario", html::scenario_part(input));
  return sections;
}

std::string head(const TextHeadline& headline) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'sha256-{}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
      "'none'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n",
      html::report_script_hash(),
      markup_text(headline.name.empty() ? "shardsim" : headline.name + " · shardsim"),
      html::report_style());
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

}  // namespace

std::string to_html(const Result& result, const TextHeadline& headline, const RunDetail& detail) {
  const html::Input input{result, headline, detail};
  const std::vector<Section> sections = sections_of(input);
  std::string links;
  std::string body;
  for (const Section& section : sections) {
    links += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.title);
    body += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}"
        "</section>\n",
        section.id, section.title, section.markup);
  }
  return fmt::format(
      "{}<body>\n<header>\n{}<nav aria-label=\"Sections\"><ul>\n{}</ul></nav>\n</header>\n<main>\n"
      "<section id=\"summary\" aria-labelledby=\"summary-title\">\n"
      "<h2 id=\"summary-title\">Summary</h2>\n{}</section>\n{}</main>\n"
      "<footer><p>Written by shardsim {}. Times are virtual: simulated, not measured. Charts by "
      "Apache ECharts, whose licence is in the source of this page.</p></footer>\n{}<script>{}"
      "</script>\n</body>\n</html>\n",
      head(headline), html::masthead(input), links, html::summary_part(input), body, version(),
      data_elements(result, detail, headline.device_memory_bytes), html::report_script());
}

}  // namespace shardsim
