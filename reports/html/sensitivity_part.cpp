#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "reports/html/bars.hpp"
#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/sensitivity.hpp"
#include "reports/units.hpp"

namespace shardsim::html {
namespace {

constexpr const char* kLessInk = "time-1";
constexpr const char* kMoreInk = "time-0";

// A quantity with less of it and with more of it: both bars in one row.
BarRow* row_for(const SensitivityBar& bar, BarChart& chart) {
  if (chart.rows.empty() || chart.rows.back().name != bar.quantity) {
    chart.rows.push_back({bar.quantity, {}, "", false});
  }
  return &chart.rows.back();
}

BarChart chart_of(const std::vector<SensitivityBar>& bars) {
  BarChart chart{.title = "Time per token with one quantity changed", .line = 0.0};
  for (const SensitivityBar& bar : bars) {
    BarRow& row = *row_for(bar, chart);
    const std::string words = bar.step_s > 0 ? change_words(bar.change) : std::string("no step");
    row.amount += (row.amount.empty() ? "" : " / ") + words;
    if (!(bar.step_s > 0)) continue;
    row.parts.push_back({std::min(0.0, bar.change), std::abs(bar.change),
                         bar.by < 0 ? kLessInk : kMoreInk,
                         fmt::format("{}: {}", bar.setting, words)});
    chart.full = std::max(chart.full, std::abs(bar.change));
  }
  chart.full = std::max(1.05 * chart.full, 1e-3);
  chart.least = -chart.full;
  return chart;
}

}  // namespace

std::string sensitivity_part(const Input& input) {
  const std::vector<SensitivityBar>& bars = input.detail.sensitivity;
  if (bars.empty()) return {};
  Table table("Each row is a run of its own, with the settings beside it.",
              {{"changed"},
               {"by", true},
               {"to"},
               {"step", true},
               {"tokens/s", true},
               {"time per token", true},
               {"with --set", false, true}});
  for (const SensitivityBar& bar : bars) {
    std::string settings;
    for (const std::string& override : bar.overrides) {
      settings += (settings.empty() ? "" : " ") + override;
    }
    const bool has_step = bar.step_s > 0;
    table.add_row({markup_text(bar.quantity), change_words(bar.by), markup_text(bar.setting),
                   has_step ? format_seconds(bar.step_s) : "none",
                   has_step ? format_number(bar.tokens_per_s) : "",
                   has_step ? change_words(bar.change) : "",
                   "<code>" + markup_text(settings) + "</code>" +
                       (bar.note.empty() ? "" : "<br>" + markup_text(bar.note))});
  }
  return "<p class=\"fact\">" + markup_text(section_facts(input).sensitivity) +
         "</p>\n<p>The further a bar reaches, the more the step depends on that quantity. To the "
         "right "
         "of the line a token takes longer, to the left it takes less.</p>\n" +
         ink_legend({{kLessInk, "less of it"}, {kMoreInk, "more of it"}}) +
         bar_chart(chart_of(bars)) + folded("Numbers as a table", table.markup());
}

}  // namespace shardsim::html
