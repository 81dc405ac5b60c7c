#include "reports/comparison_page.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "reports/html/bars.hpp"
#include "reports/html/markup.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {
namespace {

using html::BarChart;
using html::BarPart;
using html::BarRow;

constexpr const char* kOtherPartInk = "bar-6";

// By the first word of a part's name: those of reports/web/src/report.css.
std::string time_ink(const std::string& name) {
  const std::pair<const char*, const char*> inks[] = {{"compute", "time-0"}, {"exposed", "time-1"},
                                                      {"bubble", "time-2"},  {"idle", "time-2"},
                                                      {"host", "time-3"},    {"copies", "bar-10"}};
  for (const auto& [word, ink] : inks) {
    if (name.starts_with(word)) return ink;
  }
  return kOtherPartInk;
}

std::string memory_ink(const std::string& name) {
  constexpr std::string_view kCategories[] = {"params", "grads", "optimizer", "activations",
                                              "comm"};
  for (std::size_t i = 0; i < std::size(kCategories); ++i) {
    if (name == kCategories[i]) return fmt::format("memory-{}", i);
  }
  return name == "tensors" ? "bar-6" : "time-2";
}

using InkOf = std::string (*)(const std::string& name);
using PartsOf = std::vector<ComparedPart> ComparedSide::*;

double sum_of(const std::vector<ComparedPart>& parts) {
  double sum = 0;
  for (const ComparedPart& part : parts) sum += part.amount;
  return sum;
}

// Parts of one colour are one in the legend: "exposed dp, exposed tp".
std::string legend_of(const ComparisonPage& page, PartsOf parts, InkOf ink_of) {
  std::vector<html::InkName> inks;
  for (const ComparedSide& side : page.sides) {
    for (const ComparedPart& part : side.*parts) {
      const std::string ink = ink_of(part.name);
      const auto known = std::ranges::find(inks, ink, &html::InkName::ink);
      if (known == inks.end()) {
        inks.push_back({ink, part.name});
      } else if (known->name.find(part.name) == std::string::npos) {
        known->name += ", " + part.name;
      }
    }
  }
  return html::ink_legend(inks);
}

template <class Words>
BarRow stacked(const ComparedSide& side, PartsOf parts, InkOf ink_of, const Words& words) {
  BarRow row{side.letter, {}, words(sum_of(side.*parts)), false};
  double begin = 0;
  for (const ComparedPart& part : side.*parts) {
    if (!(part.amount > 0)) continue;
    row.parts.push_back(
        {begin, part.amount, ink_of(part.name), part.name + ": " + words(part.amount)});
    begin += part.amount;
  }
  return row;
}

std::string seconds_words(double seconds) { return format_seconds(seconds); }
std::string memory_words_of(double bytes) { return format_memory(bytes); }

std::string time_chart(const ComparisonPage& page) {
  BarChart chart{.title = "Where the time of a step goes", .caption = "By the model."};
  for (const ComparedSide& side : page.sides) {
    if (side.time.empty()) {
      chart.rows.push_back({side.letter,
                            {{0, side.step_s, kOtherPartInk, "not divided"}},
                            format_seconds(side.step_s),
                            false});
    } else {
      chart.rows.push_back(stacked(side, &ComparedSide::time, time_ink, seconds_words));
    }
    chart.full = std::max({chart.full, side.step_s, sum_of(side.time)});
  }
  return html::bar_chart(chart) + legend_of(page, &ComparedSide::time, time_ink);
}

// Each side has its own GPU, so each row has the outline of what that has.
std::string memory_chart(const ComparisonPage& page) {
  BarChart chart{.title = "Memory of the fullest GPU",
                 .caption = "At its peak, by the model. Outlined: what a GPU has."};
  for (const ComparedSide& side : page.sides) {
    if (side.memory.empty()) continue;
    BarRow row = stacked(side, &ComparedSide::memory, memory_ink, memory_words_of);
    if (side.device_bytes > 0) {
      row.parts.push_back(
          {0, side.device_bytes, "", "a GPU has " + format_memory(side.device_bytes)});
      row.amount += " of " + format_memory(side.device_bytes);
    }
    chart.full = std::max({chart.full, side.device_bytes, sum_of(side.memory)});
    chart.rows.push_back(std::move(row));
  }
  const std::string markup = html::bar_chart(chart);
  return markup.empty() ? markup : markup + legend_of(page, &ComparedSide::memory, memory_ink);
}

// The range of each side's step, with its centre.
std::string band_chart(const ComparisonPage& page) {
  BarChart chart{.title = "Where measured steps like these lie",
                 .caption =
                     "The range of most measured runs that are like each one; the mark is "
                     "its centre."};
  for (const ComparedSide& side : page.sides) {
    const auto band =
        std::ranges::find(side.bands, std::string(metric::kStepTimeS.name), &MetricBand::metric);
    if (band == side.bands.end()) continue;
    chart.full = std::max(chart.full, 1.02 * band->high);
    chart.rows.push_back({side.letter,
                          {{band->low, band->high - band->low, "hidden", band->group},
                           {band->centre, 0, "time-0", band_centre(*band)}},
                          band_range(*band),
                          false});
  }
  return html::bar_chart(chart);
}

std::string card_of(const ComparedSide& side) {
  std::string numbers;
  for (const ComparedNumber& number : side.numbers) {
    numbers += fmt::format(
        "<div><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"note\">{}</dd>{}</div>\n",
        markup_text(number.name), html::unbroken(number.value), markup_text(number.note),
        // An empty line keeps the rows of all sides at one height.
        number.change.empty()
            ? std::string("<dd class=\"change\">&nbsp;</dd>")
            : fmt::format("<dd class=\"change\">{}</dd>", markup_text(number.change)));
  }
  const std::string verdict =
      side.verdict.empty()
          ? std::string()
          : fmt::format("<p class=\"verdict {}\">{} {}</p>\n", side.is_bad ? "bad" : "ok",
                        side.is_bad ? "✗" : "✓", markup_text(side.verdict));
  return fmt::format(
      "<div class=\"side\">\n<h2><b>{}</b> {}</h2>\n<p>{}</p>\n<p "
      "class=\"muted\"><code>{}</code></p>\n{}<dl "
      "class=\"tiles\" style=\"--columns:1\">\n{}</dl>\n</div>\n",
      markup_text(side.letter), markup_text(side.what), markup_text(side.layout),
      markup_text(side.file), verdict, numbers);
}

std::vector<html::Column> columns_of(const ComparisonPage& page, const char* first, bool numbers) {
  std::vector<html::Column> columns = {{first}};
  for (const ComparedSide& side : page.sides) columns.push_back({side.letter, numbers, !numbers});
  return columns;
}

std::string rows_table(const ComparisonPage& page, const std::string& caption, const char* first,
                       const std::vector<ComparedRow>& rows, bool numbers) {
  if (rows.empty()) return {};
  html::Table table(caption, columns_of(page, first, numbers));
  table.make_brief();
  for (const ComparedRow& row : rows) {
    std::vector<std::string> cells = {numbers ? markup_text(row.name)
                                              : "<code>" + markup_text(row.name) + "</code>"};
    for (const std::string& value : row.values) {
      cells.push_back(value.empty() ? "<span class=\"muted\">none</span>" : markup_text(value));
    }
    table.add_row(cells);
  }
  return table.markup();
}

// Parts by name, in the order in which sides first have them.
std::string parts_table(const ComparisonPage& page, PartsOf parts, const char* caption,
                        std::string (*words)(double)) {
  std::vector<ComparedRow> rows;
  for (std::size_t i = 0; i < page.sides.size(); ++i) {
    for (const ComparedPart& part : page.sides[i].*parts) {
      auto row = std::ranges::find(rows, part.name, &ComparedRow::name);
      if (row == rows.end()) {
        rows.push_back({part.name, std::vector<std::string>(page.sides.size())});
        row = rows.end() - 1;
      }
      row->values[i] = words(part.amount);
    }
  }
  return rows_table(page, caption, "part", rows, true);
}

std::string folded_numbers(const ComparisonPage& page) {
  return parts_table(page, &ComparedSide::time, "Time of a step.", seconds_words) +
         parts_table(page, &ComparedSide::memory, "Memory of the fullest GPU at its peak.",
                     memory_words_of);
}

// Many are folded away.
std::string fields_section(const ComparisonPage& page) {
  constexpr std::size_t kFew = 12;
  constexpr const char* kTitle = "What differs in the scenario";
  const std::string table = rows_table(page, "Fields of the scenarios that are not the same.",
                                       "field", page.fields, false);
  return page.fields.size() <= kFew
             ? html::section("fields", kTitle, table)
             : html::folded_section("fields", kTitle, count_of(page.fields.size(), "field"), table);
}

}  // namespace

std::string to_html(const ComparisonPage& page) {
  std::string cards;
  for (const ComparedSide& side : page.sides) cards += card_of(side);
  const std::string summary =
      html::brief_list(page.sentences, "words") +
      fmt::format("<div class=\"sides\" style=\"--columns:{}\">\n{}</div>\n", page.sides.size(),
                  cards);
  const std::string charts = "<div class=\"pair\">\n<div>" + time_chart(page) + "</div>\n<div>" +
                             memory_chart(page) + "</div>\n<div>" + band_chart(page) +
                             "</div>\n</div>\n";
  html::PlainPage plain;
  plain.eyebrow = "shardsim: runs beside each other";
  plain.title = page.title;
  plain.footer = "Times are virtual unless a side is measured.";
  plain.main =
      "<section id=\"summary\" aria-label=\"Summary\">\n" + summary + "</section>\n" +
      "<section id=\"charts\" aria-label=\"Charts\">\n" + charts + "</section>\n" +
      fields_section(page) +
      html::folded_section("numbers", "Time and memory as tables", "", folded_numbers(page)) +
      html::folded_section(
          "traffic", "Traffic", "",
          rows_table(page, "Sent by all ranks in a step.", "axis", page.traffic, true)) +
      html::folded_section("notes", "Notes", "", html::plain_list(page.notes));
  return html::plain_page(plain);
}

}  // namespace shardsim
