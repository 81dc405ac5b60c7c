#include "reports/pages.hpp"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/version.hpp"

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
  std::string fact;
  std::string markup;
};

// From top to bottom; those without facts are empty.
std::vector<Section> sections_of(const html::Input& input) {
  const html::SectionFacts facts = html::section_facts(input);
  return {
      {"time", "Time by stage", facts.time, html::time_part(input)},
      {"cost", "Days and cost", facts.cost, html::cost_part(input)},
      {"memory", "Memory by stage and through the step", facts.memory, html::memory_part(input)},
      {"schedule", "Schedule", facts.schedule, html::schedule_part(input)},
      {"communication", "Communication by axis", facts.communication,
       html::communication_part(input)},
      {"traffic", "Traffic and links", facts.traffic, html::traffic_part(input)},
      {"roofline", "Roofline", facts.roofline, html::roofline_part(input)},
      {"checks", "Checks and error band", facts.checks, html::checks_part(input)},
      {"assumptions", "Assumptions", facts.assumptions, html::assumptions_part(input)},
      {"metrics", "All metrics", facts.metrics, html::metrics_part(input)},
      {"scenario", "Scenario", "every field, defaults included", html::scenario_part(input)}};
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
  std::string body = fmt::format("<section id=\"summary\" aria-label=\"Summary\">\n{}</section>\n",
                                 html::summary_part(input));
  // Somebody asked for it, so it is not folded away.
  body += html::section("sensitivity", "What the step depends on", html::sensitivity_part(input));
  for (const Section& section : sections_of(input)) {
    body += html::folded_section(section.id, section.title, section.fact, section.markup);
  }
  const std::string policy =
      fmt::format("script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; ",
                  html::report_script_hash());
  return html::page_head(policy,
                         headline.name.empty() ? "shardsim" : headline.name + " · shardsim") +
         fmt::format(
             "<body>\n<header>\n{}</header>\n"
             "<main>\n{}</main>\n<footer>{}<p>Written by shardsim {}. Times are virtual: "
             "simulated, "
             "not measured. Charts by Apache ECharts, whose licence is in the source of this "
             "page.</p></footer>\n{}<script>{}</script>\n</body>\n</html>\n",
             html::masthead(input), body, html::paper_note(), version(),
             data_elements(result, detail, headline.device_memory_bytes), html::report_script());
}

}  // namespace shardsim
