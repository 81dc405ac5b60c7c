#include "reports/html/markup.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"
#include "sim/kernel/version.hpp"

#include "reports/units.hpp"

namespace shardsim::html {

namespace {

constexpr double kMillion = 1e6;
constexpr double kHoursPerDay = 24;

}  // namespace

std::string markup_lines(std::string_view text) {
  std::string markup;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    markup += markup_text(text.substr(0, end));
    if (end == std::string_view::npos) break;
    markup += '\n';
    text.remove_prefix(end + 1);
  }
  return markup;
}

// "<" can only be in a JSON string, where it may be written so.
std::string script_json(std::string json) {
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

std::string unbroken(const std::string& value) {
  std::string markup = markup_text(value);
  const std::size_t space = markup.rfind(' ');
  if (space != std::string::npos) markup.replace(space, 1, "&nbsp;");
  return markup;
}

std::string grouped_digits(std::string_view text, std::size_t least) {
  constexpr std::string_view kDigits = "0123456789";
  const auto joins = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
           std::string_view("_./-+,").find(letter) != std::string_view::npos;
  };
  // At the end of a sentence a point joins nothing.
  const auto joins_after = [&](std::size_t at) {
    if (at >= text.size() || !joins(text[at])) return false;
    const bool is_mark = text[at] == '.' || text[at] == ',';
    return !is_mark || (at + 1 < text.size() && text[at + 1] != ' ');
  };
  std::string grouped;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find_first_not_of(kDigits, i), text.size());
    if (end == i) {
      grouped += text[i++];
      continue;
    }
    const std::string_view digits = text.substr(i, end - i);
    const bool stands_alone = (i == 0 || !joins(text[i - 1])) && !joins_after(end);
    const auto number = parse_number<std::int64_t>(digits);
    const bool is_grouped = stands_alone && digits.size() >= least && digits[0] != '0' && number;
    grouped += is_grouped ? format_count(*number) : std::string(digits);
    i = end;
  }
  return grouped;
}

std::string list_items(const std::vector<std::string>& texts) {
  std::string items;
  for (const std::string& text : texts) items += "<li>" + markup_text(text) + "</li>\n";
  return items;
}

std::string more_on_screen(std::size_t count, std::size_t most) {
  if (count <= most) return {};
  return fmt::format("<p class=\"paper-only more\">{} more on screen.</p>\n",
                     format_count(count - most));
}

std::string plain_list(const std::vector<std::string>& texts) {
  return texts.empty() ? std::string() : "<ul>\n" + list_items(texts) + "</ul>\n";
}

std::string brief_list(const std::vector<std::string>& texts, std::string_view style) {
  if (texts.empty()) return {};
  return fmt::format("<ul class=\"brief {}\">\n{}</ul>\n", style, list_items(texts)) +
         more_on_screen(texts.size(), kRowsOnPaper);
}

std::string paper_note() {
  return "<p class=\"paper-only\">On paper is the summary. A section that is open on screen "
         "follows "
         "it; Open all prints everything.</p>\n";
}

std::string section(std::string_view id, std::string_view title, const std::string& markup,
                    OnPaper on_paper) {
  if (markup.empty()) return {};
  return fmt::format(
      "<section id=\"{0}\"{3} aria-labelledby=\"{0}-title\">\n<h2 "
      "id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
      id, title, markup, on_paper == OnPaper::yes ? "" : " class=\"screen-only\"");
}

std::string folded_section(std::string_view id, std::string_view title, std::string_view fact,
                           const std::string& markup) {
  if (markup.empty()) return {};
  return fmt::format(
      "<details class=\"part\" id=\"{}\">\n<summary><h2>{}</h2> <span "
      "class=\"fact\">{}</span></summary>\n<div class=\"body\">\n{}</div>\n</details>\n",
      id, title, markup_text(fact), markup);
}

std::string page_head(std::string_view policy, const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {}base-uri "
      "'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n",
      policy, markup_text(title), report_style());
}

std::string page_buttons() {
  return "<p class=\"buttons\"><button id=\"unfold\" type=\"button\" hidden>Open all</button>"
         "<button id=\"theme\" type=\"button\" hidden></button></p>\n";
}

std::string plain_page(const PlainPage& page) {
  const std::string facts = page.facts.empty()
                                ? std::string()
                                : "<p class=\"facts\">" + markup_text(page.facts) + "</p>\n";
  return page_head(
             fmt::format("script-src 'sha256-{}'; style-src 'unsafe-inline'; ", page_script_hash()),
             page.title + " · shardsim") +
         fmt::format(
             "<body>\n<header>\n<p class=\"eyebrow\">{}</p>\n<h1>{}</h1>\n{}{}</header>\n<main>\n{}"
             "</main>\n<footer>{}<p>Written by shardsim {}. {}</p></footer>\n<script>{}</script>\n"
             "</body>\n</html>\n",
             markup_text(page.eyebrow), markup_text(page.title), facts, page_buttons(), page.main,
             paper_note(), version(), markup_text(page.footer), page_script());
}

std::vector<Column> text_and_numbers(std::initializer_list<const char*> titles) {
  std::vector<Column> columns;
  for (const char* title : titles) columns.push_back({title, !columns.empty()});
  return columns;
}

Table::Table(std::string caption, std::vector<Column> columns)
    : caption_(std::move(caption)), columns_(std::move(columns)) {}

void Table::add_row(const std::vector<std::string>& markup) {
  ++rows_;
  body_ += "<tr>";
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string style = std::string(columns_[i].is_number ? "number" : "text") +
                              (columns_[i].is_wide ? " wide" : "");
    body_ += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", markup.at(i))
                    : fmt::format("<td class=\"{}\">{}</td>", style, markup.at(i));
  }
  body_ += "</tr>\n";
}

std::string Table::markup() const {
  std::string head;
  for (const Column& column : columns_) {
    head += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_number ? " class=\"number\"" : "",
                        markup_text(column.title));
  }
  const std::string id = id_.empty() ? std::string() : fmt::format(" id=\"{}\"", id_);
  const std::string style = is_brief_ ? " class=\"brief\"" : "";
  return fmt::format(
             "<div class=\"scroll\" "
             "tabindex=\"0\"><table{}{}>\n<caption><span>{}</span></caption>\n"
             "<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
             id, style, markup_text(caption_), head, body_) +
         (is_brief_ ? more_on_screen(rows_, kRowsOnPaper) : std::string());
}

std::string folded(std::string_view title, const std::string& markup) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", markup_text(title), markup);
}

std::string search_field(std::string_view id, std::string_view label) {
  return fmt::format(
      "<p class=\"search\" hidden><label>{0} <input type=\"search\" data-filters=\"{1}\" "
      "autocomplete=\"off\"></label> <span class=\"muted\" id=\"{1}-count\" "
      "aria-live=\"polite\"></span></p>\n",
      markup_text(label), id);
}

std::string figure(const Figure& figure) {
  std::string instead = figure.static_markup;
  if (!instead.empty()) instead = "<div class=\"static\">\n" + instead + "</div>\n";
  const char* const style = instead.empty() ? "plot" : "plot has-static";
  return fmt::format(
      "<figure>\n<figcaption>{}</figcaption>\n"
      "<div class=\"{}\" data-chart=\"{}\" role=\"img\" aria-label=\"{}\"></div>\n{}</figure>\n",
      markup_text(figure.caption), style, figure.chart, markup_text(figure.label), instead);
}

std::string format_usd(double usd) {
  if (usd >= 1000 * kMillion) return "$" + format_number(usd / (1000 * kMillion)) + " B";
  if (usd >= kMillion) return "$" + format_number(usd / kMillion) + " M";
  return "$" + format_number(usd);
}

std::string format_tokens(double tokens) { return format_amount(tokens, Digits::given); }

std::string format_days(double days) {
  if (days < 1) return format_number(days * kHoursPerDay) + " hours";
  return format_number(days) + " days";
}

std::string format_share(double share) {
  const double percent = 100 * share;
  return percent >= 10 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1f} %", percent);
}

}  // namespace shardsim::html
