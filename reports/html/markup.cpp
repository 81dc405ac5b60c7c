#include "reports/html/markup.hpp"

#include <utility>

#include <fmt/format.h>

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

std::string list_items(const std::vector<std::string>& texts) {
  std::string items;
  for (const std::string& text : texts) items += "<li>" + markup_text(text) + "</li>\n";
  return items;
}

std::string section(std::string_view id, std::string_view title, const std::string& markup) {
  if (markup.empty()) return {};
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}"
      "</section>\n",
      id, title, markup);
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

std::vector<Column> text_and_numbers(std::initializer_list<const char*> titles) {
  std::vector<Column> columns;
  for (const char* title : titles) columns.push_back({title, !columns.empty()});
  return columns;
}

Table::Table(std::string caption, std::vector<Column> columns)
    : caption_(std::move(caption)), columns_(std::move(columns)) {}

void Table::add_row(const std::vector<std::string>& markup) {
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
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\"><table{}>\n<caption>{}</caption>\n"
      "<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
      id, markup_text(caption_), head, body_);
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
