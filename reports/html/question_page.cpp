#include "reports/question_page.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/bars.hpp"
#include "reports/html/markup.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {
namespace {

using Words = std::string (*)(double value);
using Amount = std::optional<BandRange> QuestionRow::*;

std::string hours_of_gpus(double hours) { return format_amount(hours, Digits::three); }

bool has_range(const BandRange& range) { return range.low < range.high; }

std::string about(const BandRange& range, Words words) {
  return has_range(range) ? "about " + words(range.centre) : words(range.centre);
}

std::string cell_of(const std::optional<BandRange>& range, Words words) {
  if (!range) return "<span class=\"muted\">none</span>";
  if (!has_range(*range)) return words(range->centre);
  return fmt::format("<b>{}</b><br><span class=\"muted\">{} to {}<br>model {}</span>",
                     about(*range, words), words(range->low), words(range->high),
                     words(range->by_the_model));
}

bool any_has(const QuestionPage& page, Amount amount) {
  return std::ranges::any_of(
      page.rows, [amount](const QuestionRow& row) { return (row.*amount).has_value(); });
}

// A bar from the lower to the upper end of each row's range, with a mark at its centre; a dashed
// line where the user's limit is.
std::string range_chart(const QuestionPage& page, Amount amount, Words words, const char* title,
                        const std::optional<double>& limit) {
  html::BarChart chart{.title = title,
                       .caption =
                           "The range of comparable measured runs; the mark "
                           "is its centre."};
  if (limit) {
    chart.caption += fmt::format(" The dashed line is the limit, {}.", words(*limit));
    chart.line = limit;
    chart.full = *limit;
  }
  for (const QuestionRow& row : page.rows) {
    const std::optional<BandRange>& range = row.*amount;
    if (!range) continue;
    const char* const ink = row.holds ? "memory-3" : "time-2";
    chart.rows.push_back({row.machine,
                          {{range->low, range->high - range->low, ink, row.reason},
                           {range->centre, 0, "ink", about(*range, words)}},
                          about(*range, words),
                          row.holds});
    chart.full = std::max(chart.full, range->high);
  }
  chart.full *= 1.02;
  return html::bar_chart(chart);
}

std::string first_in_words(const QuestionPage& page) {
  if (page.rows.empty()) return {};
  const QuestionRow& first = page.rows.front();
  const std::string verdict =
      fmt::format("<p class=\"verdict {}\">{}</p>\n", first.holds ? "ok" : "bad",
                  markup_text(first.holds     ? "✓ " + first.machine
                              : first.is_open ? std::string("No answer yet")
                                              : std::string("✗ No machine holds")));
  return verdict + "<p>" + markup_text(first.reason) + "</p>\n";
}

std::string tile_of(const char* name, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"note\">{}</dd></div>\n", name,
      html::unbroken(value), markup_text(note));
}

std::string range_tile(const char* name, const std::optional<BandRange>& range, Words words) {
  if (!range) return {};
  const std::string note = has_range(*range)
                               ? fmt::format("{} to {}; by the model {}", words(range->low),
                                             words(range->high), words(range->by_the_model))
                               : std::string("by the model; no range");
  return tile_of(name, about(*range, words), note);
}

std::string tiles_of_first(const QuestionPage& page) {
  if (page.rows.empty() || !page.rows.front().days) return {};
  const QuestionRow& first = page.rows.front();
  std::string tiles = range_tile("Time to train", first.days, html::format_days) +
                      range_tile("Cost", first.usd, html::format_usd) +
                      range_tile("GPU hours", first.gpu_hours, hours_of_gpus);
  tiles += tile_of("Memory of a GPU", format_memory(first.device_bytes),
                   "of " + format_memory(first.capacity_bytes) + ", by the model");
  return fmt::format("<dl class=\"tiles\" style=\"--columns:{}\">\n{}</dl>\n", first.usd ? 4 : 3,
                     tiles);
}

std::string table_of_rows(const QuestionPage& page) {
  const bool has_prices = any_has(page, &QuestionRow::usd);
  std::vector<html::Column> columns = html::text_and_numbers({"machine", "time to train"});
  if (has_prices) columns.push_back({"cost", true});
  columns.push_back({"GPU hours", true});
  columns.push_back({"memory", true});
  columns.push_back({"search", true});
  columns.push_back({"why"});
  html::Table table("Every machine with its best layout, " + page.order + ".", columns);
  table.set_id("machines-table");
  table.make_brief();
  for (const QuestionRow& row : page.rows) {
    std::vector<std::string> cells = {
        fmt::format("<b>{} {}</b><br><span class=\"muted\">{}</span>", row.holds ? "✓" : "✗",
                    markup_text(row.machine), markup_text(row.layout)),
        cell_of(row.days, html::format_days)};
    if (has_prices) cells.push_back(cell_of(row.usd, html::format_usd));
    cells.push_back(row.gpu_hours ? hours_of_gpus(row.gpu_hours->centre) : std::string());
    cells.push_back(row.days
                        ? fmt::format("{}<br><span class=\"muted\">of {}</span>",
                                      format_memory(row.device_bytes) + (row.is_tight ? "!" : ""),
                                      format_memory(row.capacity_bytes))
                        : std::string());
    cells.push_back(markup_text(row.search));
    cells.push_back(markup_text(row.reason));
    table.add_row(cells);
  }
  return html::search_field("machines-table", "Search the machines") + table.markup();
}

}  // namespace

std::string to_html(const QuestionPage& page) {
  const std::string charts =
      range_chart(page, &QuestionRow::days, html::format_days, "Time to train",
                  page.deadline_days) +
      (any_has(page, &QuestionRow::usd)
           ? range_chart(page, &QuestionRow::usd, html::format_usd, "Cost", page.budget_usd)
           : range_chart(page, &QuestionRow::gpu_hours, hours_of_gpus, "GPU hours", std::nullopt));
  html::PlainPage plain;
  plain.eyebrow = "shardsim: a choice of machines";
  plain.title = page.title;
  plain.facts = page.facts;
  plain.footer = "Times are virtual: simulated, not measured.";
  plain.main =
      "<section id=\"summary\" aria-label=\"Summary\">\n" + first_in_words(page) +
      tiles_of_first(page) +
      (charts.empty() ? charts : "<div class=\"pair\">\n" + charts + "</div>\n") +
      html::brief_list(page.notes) + "</section>\n" +
      html::section("machines", "All machines", table_of_rows(page)) +
      html::folded_section("assumptions", "Assumptions", format_count(page.assumptions.size()),
                           html::plain_list(page.assumptions));
  return html::plain_page(plain);
}

}  // namespace shardsim
