#include <vector>

#include <fmt/format.h>

#include "reports/csv_tables.hpp"
#include "reports/pages.hpp"
#include "reports/terminal_text.hpp"
#include "reports/text_sections.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {

namespace {

// In a table's cell and in a paragraph alike.
std::string plain(std::string_view text) {
  std::string safe;
  for (const char letter : escape_untrusted(text)) {
    if (std::string_view("|\\`*_<>[]#~&").find(letter) != std::string_view::npos) safe += '\\';
    safe += letter;
  }
  return safe;
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

// Numbers to the right: all columns but the first.
std::string head_of(const std::vector<std::string>& names) {
  std::string rule = "|---|";
  for (std::size_t i = 1; i < names.size(); ++i) rule += "---:|";
  return row_of(names) + rule + "\n";
}

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : std::string("-");
}

std::string head(const Result& result, const TextHeadline& headline) {
  std::string text = "# " + plain(headline.name.empty() ? "A run" : headline.name) + "\n\n";
  std::string facts;
  for (const std::string& fact :
       {headline.model, headline.system,
        headline.ranks > 0 ? format_count(headline.ranks) + " ranks" : std::string(),
        headline.layout, headline.precision, headline.batch, headline.software}) {
    if (fact.empty()) continue;
    facts += (facts.empty() ? "" : " · ") + plain(fact);
  }
  if (!facts.empty()) text += facts + "\n\n";
  return text + "**" + plain(verdict_text(result)) + "**\n";
}

std::string figures(const Result& result, const TextHeadline& headline) {
  struct Figure {
    const char* label;
    const MetricRow& metric;
    std::string (*format)(double);
  };
  const auto in_percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  const Figure all[] = {
      {"step", metric::kStepTimeS, format_seconds},
      {"MFU", metric::kMfu, in_percent},
      {"tokens/s", metric::kTokensPerS, format_number},
      {"tokens/s/GPU", metric::kTokensPerSPerGpu, format_number},
      {"TFLOP/s/GPU", metric::kModelTflopsPerGpu, format_number},
      {"memory, fullest rank", metric::kMemoryPeakBytesMax, format_memory},
      {"sent per step", metric::kCommBytesSentTotal, format_traffic},
      {"goodput", metric::kGoodputFraction, in_percent},
      {"goodput, failures as frequent as their count allows", metric::kGoodputFractionLow,
       in_percent},
      {"goodput, as rare", metric::kGoodputFractionHigh, in_percent},
      {"step, 5 % of the draws below", metric::kDrawsStepTimeSP5, format_seconds},
      {"step, 95 % of the draws below", metric::kDrawsStepTimeSP95, format_seconds},
      {"goodput, 5 % of the draws below", metric::kDrawsGoodputP5, in_percent},
      {"goodput, 95 % of the draws below", metric::kDrawsGoodputP95, in_percent}};
  std::string text;
  for (const Figure& figure : all) {
    const auto value = result.number(figure.metric);
    if (!value) continue;
    const MetricBand* const band = result.band_of(figure.metric);
    if (band == nullptr) {
      text += row_of({figure.label, figure.format(*value)});
    } else {
      text += row_of({figure.label, plain(fmt::format("{}, {} {}", band_centre(*band),
                                                      band_held(*band), band_range(*band)))});
      text += row_of({"by the model", plain(simulated_words(*band, *value))});
    }
    if (&figure.metric == &metric::kMfu && !headline.mfu_counts.empty())
      text += row_of({"MFU counts", plain(headline.mfu_counts)});
  }
  if (text.empty()) return {};
  const std::string cost = describe_cost(result, headline);
  return "\n" + head_of({"", ""}) + text + (cost.empty() ? "" : "\n" + cost + "\n");
}

std::string step(const Result& result) {
  const auto whole = result.number(metric::kStepTimeS);
  if (!whole) return {};
  std::string text =
      "\n## Step\n\nOf the rank that ends last.\n\n" + head_of({"part", "time", "share"});
  const std::pair<const char*, const MetricRow&> parts[] = {
      {"compute", metric::kTimeComputeS},
      {"exposed comm", metric::kTimeExposedCommS},
      {"bubble", metric::kTimeBubbleS},
      {"host", metric::kTimeHostS}};
  for (const auto& [label, row] : parts) {
    const double seconds = result.number(row).value_or(0);
    text += row_of({label, format_seconds(seconds), percent(seconds, *whole)});
  }
  const double hidden = result.number(metric::kTimeHiddenCommS).value_or(0);
  return text + "\nBeside it, hidden behind computing: " + format_seconds(hidden) +
         " of communication.\n";
}

std::string stages(const RunDetail& detail) {
  std::string text = "\n## Stages\n\n" + head_of({"stage", "rank", "compute", "exposed comm",
                                                  "bubble", "host", "peak memory"});
  for (const StageTime& stage : detail.stages) {
    text += row_of({fmt::format("{}", stage.stage), fmt::format("{}", stage.rank),
                    format_seconds(stage.compute_s), format_seconds(stage.exposed_comm_s),
                    format_seconds(stage.bubble_s), format_seconds(stage.host_s),
                    format_memory(stage.peak_bytes)});
  }
  return text;
}

std::string memory(const RunDetail& detail) {
  std::vector<std::string> names = {"stage"};
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    names.emplace_back(name_of(static_cast<MemoryCategory>(i)));
  }
  names.emplace_back("sum");
  std::string text =
      "\n## Memory\n\nOf the fullest rank of each stage, at its peak.\n\n" + head_of(names);
  for (const StageTime& stage : detail.stages) {
    std::vector<std::string> cells = {fmt::format("{}", stage.stage)};
    for (const std::int64_t bytes : stage.at_peak) {
      cells.push_back(format_memory(bytes));
    }
    cells.push_back(format_memory(stage.peak_bytes));
    text += row_of(cells);
  }
  return text;
}

std::string communication(const RunDetail& detail) {
  if (detail.axes.empty()) return {};
  std::string text =
      "\n## Communication\n\nTimes of the rank that ends last, bytes of all ranks in a step.\n\n" +
      head_of({"axis", "exposed", "hidden", "sent"});
  for (const AxisComm& axis : detail.axes) {
    text += row_of({axis.axis, format_seconds(axis.exposed_s), format_seconds(axis.hidden_s),
                    format_traffic(axis.bytes_sent)});
  }
  if (detail.links.empty()) return text;
  text += "\n" + head_of({"links", "sent", "GB/s per GPU", "busiest", "its share of the step"});
  for (const LinkUse& link : detail.links) {
    text += row_of({link.tier, format_traffic(link.bytes), format_number(link.bandwidth_gb_per_s),
                    link.busiest, percent(link.busiest_share, 1)});
  }
  return text;
}

std::string error_band(const Result& result) {
  if (!result.no_error_band.empty()) {
    return "\n## Error band\n\nNone: " + plain(result.no_error_band) + ".\n";
  }
  if (result.error_bands.empty()) return {};
  std::string text = "\n## Error band\n\n";
  for (const MetricBand& band : result.error_bands) {
    text += "- " + plain(band_held(band) + ": " + band_words(band, result)) + "\n";
  }
  return text;
}

std::string verdicts(const Result& result) {
  std::string text;
  for (const Check& check : result.checks) {
    text += fmt::format("- {} {}: {}\n", check.passed ? "passed" : "**FAILED**", plain(check.name),
                        plain(check.detail));
  }
  for (const ExpectationResult& row : result.expectations) {
    text += fmt::format("- {} {}\n", row.passed ? "passed" : "**FAILED**",
                        plain(expectation_text(row, result)));
  }
  if (result.diagnosis)
    text +=
        "- **" + plain(result.diagnosis->code) + "**: " + plain(result.diagnosis->summary) + "\n";
  return text.empty() ? text : "\n## Checks\n\n" + text;
}

std::string list_of(const char* title, const std::vector<std::string>& items) {
  if (items.empty()) return {};
  std::string text = fmt::format("\n## {}\n\n", title);
  for (const std::string& item : items) text += "- " + plain(item) + "\n";
  return text;
}

std::string assumptions(const Result& result) {
  std::vector<std::string> items;
  for (const Assumption& assumption : result.assumptions) {
    items.push_back(assumption.text + " (" + assumption.source + ")");
  }
  return list_of("Assumptions", items);
}

std::string all_metrics(const Result& result) {
  if (result.metrics.empty()) return {};
  std::string text = "\n## Metrics\n\n" + head_of({"name", "value"});
  for (const Metric& metric : ordered_metrics(result)) {
    text += row_of({"`" + metric.name + "`", plain(exact_text(metric.value))});
  }
  return text;
}

}  // namespace

std::string to_markdown(const Result& result, const TextHeadline& headline,
                        const RunDetail* detail) {
  std::string page = head(result, headline) + figures(result, headline) + step(result);
  if (detail != nullptr) page += stages(*detail) + memory(*detail) + communication(*detail);
  page += error_band(result) + verdicts(result) + list_of("Warnings", result.warnings);
  if (detail != nullptr) page += list_of("Notes", detail->notes);
  return page + assumptions(result) + all_metrics(result);
}

}  // namespace shardsim
