#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/bars.hpp"
#include "reports/html/markup.hpp"
#include "reports/pages.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {
namespace {

const MetricBand* band_of_row(const LayoutRow& row, const MetricRow& metric) {
  const auto band = std::ranges::find(row.bands, std::string(metric.name), &MetricBand::metric);
  return band == row.bands.end() ? nullptr : &*band;
}

// The centre with its range below it; without a band what was simulated.
std::string banded(const MetricBand* band, const std::string& simulated) {
  if (band == nullptr) return markup_text(simulated);
  return fmt::format("<b>{}</b><br><span class=\"muted\">{}<br>model {}</span>",
                     markup_text(band_centre(*band)), markup_text(band_range(*band)),
                     markup_text(simulated));
}

// "69.2 to 84.4 days": a unit that both have is said once.
std::string range_in_words(std::string low, const std::string& high) {
  const std::size_t space = high.rfind(' ');
  const std::string unit = space == std::string::npos ? "" : high.substr(space);
  if (!unit.empty() && low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + " to " + high;
}

// In proportion to the step, so with its band.
std::string with_the_step(const LayoutRow& row, double simulated, std::string (*words)(double)) {
  const MetricBand* const band = band_of_row(row, metric::kStepTimeS);
  if (band == nullptr || !(row.step_s > 0)) return words(simulated);
  const auto at = [&](double step) { return words(simulated * step / row.step_s); };
  return fmt::format("<b>about {}</b><br><span class=\"muted\">{}</span>", at(band->centre),
                     range_in_words(at(band->low), at(band->high)));
}

bool any_row(const std::vector<LayoutRow>& rows, double LayoutRow::*member) {
  return std::ranges::any_of(rows, [member](const LayoutRow& row) { return row.*member > 0; });
}

std::string table_of_layouts(const std::string& id, const std::string& caption,
                             const std::vector<LayoutRow>& rows) {
  const bool has_days = any_row(rows, &LayoutRow::days);
  const bool has_cost = any_row(rows, &LayoutRow::usd);
  // The cost of the whole training says more.
  const bool has_price = !has_cost && any_row(rows, &LayoutRow::usd_per_1t_tokens);
  std::vector<html::Column> columns =
      html::text_and_numbers({"layout", "step", "MFU", "tokens/s/GPU", "memory"});
  columns.front().is_wide = true;
  if (has_price) columns.push_back({"1 T tokens", true});
  if (has_days) columns.push_back({"time to train", true});
  if (has_cost) columns.push_back({"cost", true});
  html::Table table(caption, columns);
  table.set_id(id);
  table.make_brief();
  for (const LayoutRow& row : rows) {
    std::vector<std::string> cells = {
        markup_text(row.layout),
        banded(band_of_row(row, metric::kStepTimeS), format_seconds(row.step_s)),
        fmt::format("{:.1f} %", 100 * row.mfu), format_number(row.tokens_per_s_per_gpu),
        banded(band_of_row(row, metric::kMemoryDeviceBytesMax), format_memory(row.device_bytes))};
    if (has_price) cells.push_back(html::format_usd(row.usd_per_1t_tokens));
    if (has_days) cells.push_back(with_the_step(row, row.days, html::format_days));
    if (has_cost) cells.push_back(with_the_step(row, row.usd, html::format_usd));
    table.add_row(cells);
  }
  return table.markup();
}

std::string paragraph(const std::string& text) {
  return text.empty() ? text : "<p>" + markup_text(text) + "</p>\n";
}

// "about 6.76 s (80 % of runs: 6.27 to 7.64 s; by the model 6.44 s)".
std::string banded_words(const MetricBand* band, const std::string& simulated) {
  if (band == nullptr) return simulated;
  return fmt::format("{} ({}: {}; by the model {})", band_centre(*band), band_held(*band),
                     band_range(*band), simulated);
}

std::string best_in_words(const LayoutPage& page) {
  if (page.ranked.empty()) return paragraph("No layout fits.");
  const LayoutRow& best = page.ranked.front();
  return paragraph(fmt::format(
             "The best layout is {}: a step of {}, {} tokens per second on each GPU by the model, "
             "and {} of the {} of memory that a GPU has.",
             best.layout,
             banded_words(band_of_row(best, metric::kStepTimeS), format_seconds(best.step_s)),
             format_number(best.tokens_per_s_per_gpu),
             banded_words(band_of_row(best, metric::kMemoryDeviceBytesMax),
                          format_memory(best.device_bytes)),
             format_memory(page.capacity_bytes))) +
         paragraph(page.why);
}

// The best few against what a GPU has: a page's first question is whether they fit.
std::string memory_bars(const LayoutPage& page) {
  constexpr std::size_t kShown = 5;
  html::BarChart chart{.title = "Memory of the best",
                       .caption = "By the model; the dashed line is what a GPU has.",
                       .line = static_cast<double>(page.capacity_bytes)};
  chart.full = 1.01 * static_cast<double>(page.capacity_bytes);
  for (std::size_t i = 0; i < std::min(kShown, page.ranked.size()); ++i) {
    const auto bytes = static_cast<double>(page.ranked[i].device_bytes);
    chart.rows.push_back(
        {page.ranked[i].layout, {{0, bytes, "memory-3", ""}}, format_memory(bytes), false});
    chart.full = std::max(chart.full, bytes);
  }
  return html::bar_chart(chart);
}

std::string step_bars(const LayoutPage& page) {
  constexpr std::size_t kShown = 5;
  html::BarChart chart{.title = "Step of the best", .caption = "By the model."};
  for (std::size_t i = 0; i < std::min(kShown, page.ranked.size()); ++i) {
    const LayoutRow& row = page.ranked[i];
    chart.rows.push_back(
        {row.layout, {{0, row.step_s, "time-0", ""}}, format_seconds(row.step_s), false});
    chart.full = std::max(chart.full, row.step_s);
  }
  return html::bar_chart(chart);
}

std::string scatter_section(const LayoutPage& page) {
  if (page.front.empty()) return {};
  return "<figure>\n<figcaption>All simulated layouts that fit: faster to the right, smaller "
         "below. Point at a dot to see its layout.</figcaption>\n<div class=\"static "
         "always\">" +
         to_svg_scatter(page) + "</div>\n</figure>\n";
}

std::string launches(const LayoutPage& page) {
  std::string markup;
  for (const LayoutRow& row : page.ranked) {
    for (const LayoutRow::Launch& launch : row.launches) {
      markup += html::folded(launch.framework + ": " + row.layout,
                             "<pre>" + html::markup_lines(launch.text) + "</pre>\n");
    }
  }
  return markup;
}

std::string ranking(const LayoutPage& page) {
  if (page.ranked.empty()) return {};
  return html::search_field("ranking-table", "Search the layouts") +
         table_of_layouts("ranking-table", "The best, " + page.order + ".", page.ranked);
}

}  // namespace

std::string to_html(const LayoutPage& page) {
  const std::string bars = step_bars(page) + memory_bars(page);
  const std::string summary = best_in_words(page) +
                              (bars.empty() ? bars : "<div class=\"pair\">\n" + bars + "</div>\n") +
                              paragraph(page.counts);
  html::PlainPage plain;
  plain.eyebrow = "shardsim: a search of layouts";
  plain.title = page.title;
  plain.facts = page.facts;
  plain.footer = "Times are virtual: simulated, not measured.";
  plain.main =
      html::section("summary", "Summary", summary) +
      html::section("ranking", "Ranking", ranking(page)) +
      html::section("front", "Speed against memory", scatter_section(page),
                    html::OnPaper::only_with_all) +
      html::folded_section(
          "front-layouts", "Pareto front", count_of(page.front.size(), "layout"),
          page.front.empty()
              ? std::string()
              : table_of_layouts("front-table",
                                 "No searched layout is both faster and smaller than one of these.",
                                 page.front)) +
      html::folded_section("launch", "Launch flags", "for the best layouts", launches(page)) +
      html::folded_section("assumptions", "Assumptions", format_count(page.assumptions.size()),
                           html::plain_list(page.assumptions));
  return html::plain_page(plain);
}

}  // namespace shardsim
