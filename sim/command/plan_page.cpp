#include "sim/command/plan_page.hpp"

#include <algorithm>

#include "scenarios/formats/emit.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kWithFlags = 5;

void add_measured(const Result& measured, LayoutRow& row) {
  if (measured.no_error_band.empty()) row.bands = measured.error_bands;
  row.days = measured.number(metric::kCostDays).value_or(0);
  row.usd = measured.number(metric::kCostUsd).value_or(0);
}

std::vector<LayoutRow::Launch> launches_of(const SearchBase& base, const SimulatedPoint& point) {
  const Scenario scenario = scenario_of(base, point.candidate);
  std::vector<LayoutRow::Launch> launches;
  for (const std::string& framework : emitted_frameworks()) {
    const Emission emission = emit_for(framework, scenario);
    if (emission.unsaid.empty()) launches.push_back({framework, emission.text});
  }
  return launches;
}

}  // namespace

LayoutPage plan_page(const SearchBase& base, const SearchReport& report) {
  LayoutPage page = page_of(report);
  for (std::size_t i = 0; i < page.ranked.size(); ++i) {
    if (i < report.measured.size()) add_measured(report.measured[i], page.ranked[i]);
    if (i < kWithFlags) page.ranked[i].launches = launches_of(base, report.ranked[i]);
  }
  // The same layouts have the same bands on the front.
  for (LayoutRow& row : page.front) {
    const auto ranked = std::ranges::find(page.ranked, row.layout, &LayoutRow::layout);
    if (ranked != page.ranked.end()) row = *ranked;
  }
  return page;
}

}  // namespace shardsim
