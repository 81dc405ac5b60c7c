#include "reports/text_sections.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reports/step_range.hpp"
#include "reports/terminal_text.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {

namespace {

/// "  label        ████▋       14.0 %   figures", the bar in its colour.
std::string bar_row(const Page& page, std::string_view label, Style style, std::size_t eighths,
                    double percent, const std::string& figures) {
  const std::string bar = draw_bar(eighths, page.bar_columns());
  return fmt::format("  {:<14}{}  {:5.1f} %   {}", label, page.paint(style, bar), percent, figures);
}

std::size_t eighths_of(double share, const Page& page) {
  const double full = static_cast<double>(8 * page.bar_columns());
  return static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * full));
}

// "28 min", "3.1 h", "45 s": the units in which people speak of outages.
std::string period_text(double seconds) {
  constexpr double kMinute = 60.0;
  constexpr double kHour = 3600.0;
  constexpr double kDay = 86400.0;
  if (seconds >= 3.0 * kDay) return fmt::format("{:.1f} days", seconds / kDay);
  if (seconds >= 2.0 * kHour) return fmt::format("{:.1f} h", seconds / kHour);
  if (seconds >= 2.0 * kMinute) return fmt::format("{:.0f} min", seconds / kMinute);
  return fmt::format("{:.1f} s", seconds);
}

std::string share_text(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

// Marks Daly's interval, or gives it beside another one.
std::string interval_text(double interval_s, double daly_s) {
  if (interval_s == daly_s) return period_text(interval_s) + " (Daly)";
  return fmt::format("{} (Daly {})", period_text(interval_s), period_text(daly_s));
}

}  // namespace

void append(Lines& lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

std::vector<std::string> facts_of(const TextHeadline& headline) {
  const std::string ranks = headline.ranks == 1  ? "1 rank"
                            : headline.ranks > 0 ? format_count(headline.ranks) + " ranks"
                                                 : std::string();
  std::vector<std::string> facts = {headline.model,   headline.system,    ranks,
                                    headline.layout,  headline.precision, headline.batch,
                                    headline.software};
  std::erase(facts, std::string());
  return facts;
}

Lines headline_section(const TextHeadline& headline, const Page& page) {
  std::string facts;
  for (const std::string& fact : facts_of(headline)) {
    facts += (facts.empty() ? "" : " · ") + escape_untrusted(fact);
  }
  Lines lines;
  const std::string name = truncate_to_width(escape_untrusted(headline.name), page.width());
  if (!name.empty()) lines.push_back(page.paint(Style::bold, name));
  if (facts.empty()) return lines;
  append(lines, wrap_to_width("  " + facts, page.width(), 2));
  return lines;
}

// Where measurements put the step, and then all that was simulated.
Lines figures_section(const Result& result, const Page& page) {
  const auto step = result.number(metric::kStepTimeS);
  const MetricBand* const band = result.band_of(metric::kStepTimeS);
  const bool is_measured = step && band != nullptr && result.find(metric::kOraclePassed) == nullptr;
  std::vector<std::string> parts;
  const auto add = [&](const MetricRow& row, const char* format, auto text) {
    if (const auto value = result.number(row)) {
      parts.push_back(fmt::format(fmt::runtime(format), text(*value)));
    }
  };
  if (is_measured) {
    parts.push_back(by_the_model(*band, *step));
  } else {
    add(metric::kStepTimeS, "step {}", format_seconds);
  }
  add(metric::kMfu, "MFU {}", share_text);
  add(metric::kTokensPerSPerGpu, "{} tokens/s/GPU", format_number);
  add(metric::kModelTflopsPerGpu, "{} TFLOP/s/GPU", format_number);
  if (parts.empty()) return {};
  Lines lines;
  if (is_measured) {
    const std::string headline = "step " + band_centre(*band);
    lines = wrap_to_width(fmt::format("  {}, {} {} ({})", headline, band_held(*band),
                                      band_range(*band), band_evidence(*band, result)),
                          page.width(), 2);
    lines.front().replace(2, headline.size(), page.paint(Style::bold, headline));
  }
  append(lines, wrap_to_width(fmt::format("  {}", fmt::join(parts, "   ")), page.width(), 2));
  return lines;
}

Lines mfu_section(const Result& result, const TextHeadline& headline, const Page& page) {
  if (!result.number(metric::kMfu) || headline.mfu_counts.empty()) return {};
  return page.row("MFU counts", escape_untrusted(headline.mfu_counts));
}

Lines time_section(const Result& result, const Page& page) {
  struct Part {
    const char* label;
    const MetricRow& metric;
    Style style;
  };
  constexpr std::array<Part, 3> kParts = {{{"compute", metric::kTimeComputeS, Style::good},
                                           {"exposed comm", metric::kTimeExposedCommS, Style::bad},
                                           {"bubble", metric::kTimeBubbleS, Style::dim}}};
  // Shown if anything waited for it.
  constexpr Part kHost = {"host", metric::kTimeHostS, Style::bad};
  std::vector<double> seconds;
  for (const Part& part : kParts) {
    const auto value = result.number(part.metric);
    if (!value || !std::isfinite(*value) || *value < 0) return {};
    seconds.push_back(*value);
  }
  const double host = result.number(kHost.metric).value_or(0.0);
  const bool has_host = std::isfinite(host) && host > 0.0;
  if (has_host) seconds.push_back(host);
  const std::vector<int> permille = apportion(seconds, 1000);
  const std::vector<int> eighths = apportion(seconds, static_cast<int>(8 * page.bar_columns()));
  const auto hidden = result.number(metric::kTimeHiddenCommS);
  Lines lines;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Part& part = i < kParts.size() ? kParts[i] : kHost;
    std::string figures = format_seconds(seconds[i]);
    if (i == 1 && hidden && *hidden > 0) figures += ", hidden comm " + format_seconds(*hidden);
    lines.push_back(bar_row(page, part.label, part.style, static_cast<std::size_t>(eighths[i]),
                            permille[i] / 10.0, figures));
  }
  const auto idle = result.number(metric::kTimePipelineIdleSMax);
  const auto in_span = result.number(metric::kTimePipelineIdleInSpanSMax);
  if (idle && in_span) {
    append(lines, page.row("  pipeline", "idle " + format_seconds(*idle) + " on the worst rank, " +
                                             format_seconds(*in_span) +
                                             " from a rank's first start to its last end"));
  }
  return lines;
}

Lines memory_section(const Result& result, double device_memory_bytes, const Page& page) {
  const auto peak = result.number(metric::kMemoryPeakBytesMax);
  if (!peak) return {};
  const double whole = device_memory_bytes > 0 ? device_memory_bytes : *peak;
  const double share = whole > 0 ? *peak / whole : 0;
  std::string figures = format_memory(*peak);
  if (device_memory_bytes > 0) figures += " of " + format_memory(device_memory_bytes);
  figures += ", fullest rank";
  Lines lines = {bar_row(page, "memory peak", share > 1 ? Style::bad : Style::good,
                         eighths_of(share, page), 100 * share, figures)};
  double sum = 0;
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    const double bytes = result.number(*kMemoryMetrics.at(i)).value_or(0);
    sum += bytes;
    if (!(bytes > 0) || !(whole > 0)) continue;
    lines.push_back(bar_row(page, fmt::format("  {}", name_of(static_cast<MemoryCategory>(i))),
                            Style::dim, eighths_of(bytes / whole, page), 100 * bytes / whole,
                            format_memory(bytes)));
  }
  // Each category is the largest of any rank, so unequal ranks make the parts exceed the peak.
  if (lines.size() > 1 && sum > *peak) lines.back() += "   (parts: largest of any rank)";
  const auto reserved = result.number(metric::kMemoryReservedPeakBytesMax);
  const auto device = result.number(metric::kMemoryDeviceBytesMax);
  if (reserved && device) {
    append(lines, page.row("  on device", format_memory(*device) + ": the allocator's " +
                                              format_memory(*reserved) +
                                              ", CUDA context and NCCL buffers"));
  }
  if (const auto host = result.number(metric::kMemoryHostBytesMax)) {
    append(lines, page.row("  on the host", format_memory(*host) + " a rank"));
  }
  return lines;
}

Lines traffic_section(const Result& result, const Page& page) {
  const auto total = result.number(metric::kCommBytesSentTotal);
  if (!total) return {};
  std::vector<std::string> axes;
  for (const auto& [axis, row] : kAxisMetrics) {
    const double bytes = result.number(row).value_or(0);
    if (bytes > 0) axes.push_back(fmt::format("{} {}", axis, format_traffic(bytes)));
  }
  std::string text = format_traffic(*total) + " sent";
  if (!axes.empty()) text += fmt::format(" ({})", fmt::join(axes, " · "));
  if (const auto most = result.number(metric::kCommBytesSentMaxRank)) {
    text += ", busiest rank " + format_traffic(*most);
  }
  if (const auto calls = result.number(metric::kCommCallsTotal)) {
    text += ", " + format_count(static_cast<std::int64_t>(*calls)) + " calls";
  }
  return page.row("traffic", text);
}

std::string describe_cost(const Result& result, const TextHeadline& headline) {
  const auto days = result.number(metric::kCostDays);
  const auto hours = result.number(metric::kCostGpuHours);
  if (!days || !hours) return {};
  std::string text = format_amount(headline.tokens_total, Digits::given) + " tokens: ";
  if (result.band_of(metric::kStepTimeS) == nullptr) {
    text += format_number(*days) + " days";
  } else {
    const BandRange range = range_with_step(result, *days);
    text += fmt::format("about {} days ({} to {}, by the model {})", format_number(range.centre),
                        format_number(range.low), format_number(range.high), format_number(*days));
  }
  const auto amount = [&result](double by_the_model) {
    return format_amount(range_with_step(result, by_the_model).centre, Digits::three);
  };
  text += fmt::format(", {} GPU hours", amount(*hours));
  if (const auto usd = result.number(metric::kCostUsd)) text += ", $" + amount(*usd);
  return text;
}

Lines cost_section(const Result& result, const TextHeadline& headline, const Page& page) {
  const std::string text = describe_cost(result, headline);
  return text.empty() ? Lines() : page.row("training", text);
}

Lines goodput_section(const Result& result, const Page& page) {
  const auto number = [&](const MetricRow& row) { return result.number(row).value_or(0.0); };
  if (result.find(metric::kGoodputFraction) == nullptr) return {};
  std::string text = share_text(number(metric::kGoodputFraction));
  if (result.find(metric::kGoodputFractionLow) != nullptr) {
    text += fmt::format(" ({} to {})", share_text(number(metric::kGoodputFractionLow)),
                        share_text(number(metric::kGoodputFractionHigh)));
  }
  text += fmt::format(
      " at one failure per {}: checkpoints {}, rework {}, restarts {}; interval {}",
      period_text(number(metric::kGoodputMtbfS)),
      share_text(number(metric::kGoodputLostShareCheckpoint)),
      share_text(number(metric::kGoodputLostShareRework)),
      share_text(number(metric::kGoodputLostShareRestart)),
      interval_text(number(metric::kGoodputCheckpointIntervalS), number(metric::kGoodputDalyS)));
  return page.row("goodput", text);
}

Lines draws_section(const Result& result, const Page& page) {
  const auto count = result.number(metric::kDrawsCount);
  if (!count) return {};
  const auto number = [&](const MetricRow& row) { return result.number(row).value_or(0.0); };
  std::string text = fmt::format("{}, 90 % of them: step {} to {}, median {}",
                                 format_count(static_cast<std::int64_t>(*count)),
                                 format_seconds(number(metric::kDrawsStepTimeSP5)),
                                 format_seconds(number(metric::kDrawsStepTimeSP95)),
                                 format_seconds(number(metric::kDrawsStepTimeSP50)));
  if (result.find(metric::kDrawsGoodputP5) != nullptr) {
    text += fmt::format("; goodput {} to {}", share_text(number(metric::kDrawsGoodputP5)),
                        share_text(number(metric::kDrawsGoodputP95)));
  }
  if (result.find(metric::kDrawsDaysP5) != nullptr) {
    text += fmt::format("; training {:.1f} to {:.1f} days", number(metric::kDrawsDaysP5),
                        number(metric::kDrawsDaysP95));
  }
  return page.row("draws", text);
}

Lines expert_section(const Result& result, const Page& page) {
  const auto imbalance = result.number(metric::kMoeLoadImbalance);
  if (!imbalance) return {};
  std::string text = fmt::format("busiest {:.2f} x its layer's mean", *imbalance);
  if (const auto dropped = result.number(metric::kMoeDroppedTokens)) {
    const bool is_whole = *dropped == std::floor(*dropped);
    text +=
        ", " +
        (is_whole ? format_count(static_cast<std::int64_t>(*dropped)) : format_number(*dropped)) +
        " token slots dropped per step";
  }
  const auto all = result.number(metric::kModelParameters);
  const auto active = result.number(metric::kModelActiveParameters);
  if (all && active) {
    text += fmt::format(", {} of {} parameters active", format_amount(*active, Digits::three),
                        format_amount(*all, Digits::three));
  }
  return page.row("experts", text);
}

Lines loss_scale_section(const Result& result, std::int64_t steps, const Page& page) {
  const auto scale = result.number(metric::kLossScalingScale);
  const auto skipped = result.number(metric::kLossScalingSkippedSteps);
  if (!scale || !skipped) return {};
  // All its digits, and no more: scales are powers of two, 1048576 is not 1.05e+06.
  return page.row("loss scale",
                  fmt::format("{} at the end, {} of {} steps skipped", *scale, *skipped, steps));
}

Lines oracle_section(const Result& result, const Page& page) {
  const auto passed = result.number(metric::kOraclePassed);
  if (!passed) return {};
  std::vector<std::string> errors;
  const std::pair<const char*, const MetricRow&> kinds[] = {
      {"grads", metric::kOracleMaxRelErrorGrads},
      {"params", metric::kOracleMaxRelErrorParams},
      {"optimizer_state", metric::kOracleMaxRelErrorOptimizerState},
      {"loss", metric::kOracleMaxRelErrorLoss},
      {"norm", metric::kOracleMaxRelErrorNorm}};
  for (const auto& [kind, row] : kinds) {
    const auto error = result.number(row);
    if (error) errors.push_back(fmt::format("{} {}", kind, format_number(*error)));
  }
  std::string text = *passed != 0 ? "passed" : "FAILED";
  if (!errors.empty()) {
    text += fmt::format(", largest relative error: {}", fmt::join(errors, " · "));
  }
  return page.row("oracle", text);
}

Lines checks_section(const Result& result, const Page& page) {
  std::vector<std::string> passed;
  for (const Check& check : result.checks) {
    if (check.passed) passed.push_back(escape_untrusted(check.name));
  }
  if (passed.empty()) return {};
  const std::string text = fmt::format("{} of {} passed: {}", passed.size(), result.checks.size(),
                                       fmt::join(passed, ", "));
  return {truncate_to_width(fmt::format("  {:<14}{}", "checks", text), page.width())};
}

Lines schedules_section(const Result& result, const Page& page) {
  for (const Check& check : result.checks) {
    if (check.name == "schedules" && check.passed) {
      return page.row("schedules", escape_untrusted(check.detail));
    }
  }
  return {};
}

}  // namespace shardsim
