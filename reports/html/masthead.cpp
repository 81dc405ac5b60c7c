#include <initializer_list>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {

std::string masthead(const Input& input) {
  const TextHeadline& headline = input.headline;
  const std::string ranks = headline.ranks == 0   ? std::string()
                            : headline.ranks == 1 ? std::string("1 rank")
                                                  : format_count(headline.ranks) + " ranks";
  std::string facts;
  for (const std::string& fact : {headline.model, headline.system, ranks, headline.layout,
                                  headline.precision, headline.batch}) {
    if (fact.empty()) continue;
    if (!facts.empty()) facts += " · ";
    facts += markup_text(fact);
  }
  const std::string name = headline.name.empty() ? std::string("A training step") : headline.name;
  return fmt::format(
      "<p class=\"eyebrow\">shardsim: a simulated training step</p>\n<h1>{}</h1>\n"
      "<p class=\"facts\">{}</p>\n<button id=\"theme\" type=\"button\" hidden></button>\n",
      markup_text(name), facts);
}

std::string summary_part(const Input& input) {
  const Result& result = input.result;
  const bool is_ok = result.exit_code == 0;
  // Verdicts have a mark beside their colour; the functions that word them escape their text.
  return fmt::format("<p class=\"verdict {}\">{} {}</p>\n<p class=\"lead\">{}</p>\n{}{}",
                     is_ok ? "ok" : "bad", is_ok ? "✓" : "✗", markup_text(verdict_text(result)),
                     plain_summary(input), tiles(input), problems(input));
}

}  // namespace shardsim::html
