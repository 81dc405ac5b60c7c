#include <fmt/format.h>

#include "reports/layout_page.hpp"
#include "reports/units.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

namespace {

std::vector<LayoutRow> rows_of(const SearchReport& report,
                               const std::vector<SimulatedPoint>& points) {
  std::vector<LayoutRow> rows;
  rows.reserve(points.size());
  for (const SimulatedPoint& point : points) {
    rows.push_back({.layout = report.layout_of(point),
                    .step_s = point.step_time_s,
                    .mfu = point.mfu,
                    .tokens_per_s_per_gpu = point.tokens_per_s_per_gpu,
                    .device_bytes = point.device_bytes,
                    .usd_per_1t_tokens = report.usd_per_1t_tokens(point)});
  }
  return rows;
}

std::string counted(std::size_t count) { return format_count(static_cast<std::int64_t>(count)); }

std::string counts_of(const SearchReport& report) {
  std::string text = fmt::format(
      "{} layouts: {} simulated in full, {} shown by bounds to be worse, {} shown not to fit.",
      counted(report.num_candidates), counted(report.num_simulated), counted(report.num_slower),
      counted(report.num_too_large));
  if (report.num_did_not_fit > 0) {
    text += fmt::format(" Of those simulated {} did not fit.", counted(report.num_did_not_fit));
  }
  if (!report.least_that_did_not_fit.empty()) {
    text += fmt::format(" Of what does not fit, {} needs least: {}{}.",
                        report.least_that_did_not_fit, report.least_is_simulated ? "" : "at least ",
                        format_memory(static_cast<double>(report.least_bytes_not_fitting)));
  }
  if (report.num_refused > 0) {
    text += fmt::format(" {} are not legal after all.", counted(report.num_refused));
  }
  if (report.num_failed > 0) {
    text += fmt::format(" {} failed, the first ({}) with: {}.", counted(report.num_failed),
                        report.first_failed, report.first_failure);
  }
  if (report.num_unseen > 0) {
    text += fmt::format(" The search was interrupted: {} were not looked at.",
                        counted(report.num_unseen));
  }
  return text;
}

const char* order_of(Objective objective) {
  switch (objective) {
    case Objective::time:
      return "fastest first";
    case Objective::memory:
      return "smallest first";
    case Objective::cost:
      return "cheapest first";
  }
  return "";
}

}  // namespace

LayoutPage page_of(const SearchReport& report) {
  LayoutPage page;
  page.title = fmt::format("{} on {} GPUs of {}", report.model, format_count(report.num_gpus),
                           report.system);
  page.facts = fmt::format("{}, {} tokens per sequence, global batch {}", report.precision,
                           format_count(report.seq_len), format_count(report.global_batch_size));
  page.order = order_of(report.objective);
  page.why = report.why_runner_up.empty() ? "" : "The second: " + report.why_runner_up;
  page.counts = counts_of(report);
  page.capacity_bytes = report.memory_capacity_bytes;
  page.ranked = rows_of(report, report.ranked);
  page.front = rows_of(report, report.front);
  page.others = rows_of(report, report.others);
  page.assumptions = report.assumptions;
  page.assumptions.insert(page.assumptions.end(), report.ignored.begin(), report.ignored.end());
  page.assumptions.insert(page.assumptions.end(), report.sources.begin(), report.sources.end());
  return page;
}

}  // namespace shardsim
