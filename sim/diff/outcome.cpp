#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/metric_rows.hpp"

#include "reports/units.hpp"
#include "sim/diff/comparison.hpp"

namespace shardsim {

namespace {

constexpr const char* kGoodput = metric::kGoodputFraction.name;
constexpr double kAll = 100.0;

std::string rate_text(double rate) {
  // From here on all digits are shown: three would hide the effect of a setting.
  constexpr double kHundred = 100.0;
  return rate < kHundred ? format_number(rate) : format_count(std::llround(rate));
}

std::string share_of_all(double share) { return fmt::format("{:.2f} %", kAll * share); }
std::string points_text(double share) { return fmt::format("{:.2f} points", kAll * share); }
std::string days_text(double days) { return format_number(days) + " days"; }
std::string hours_text(double hours) { return format_amount(hours, Digits::three); }
std::string usd_text(double usd) { return "$" + format_amount(usd, Digits::three); }

using AmountText = std::string (*)(double amount);

struct OutcomeRow {
  const char* metric;
  const char* title;
  AmountText text;
  AmountText difference;
  bool by_both;    ///< Useless from one side alone.
  bool has_share;  ///< A share of a share would be misread.
};

constexpr std::array kRows = {
    OutcomeRow{metric::kTokensPerSPerGpu.name, "tokens/s/GPU", rate_text, rate_text, true, true},
    OutcomeRow{kGoodput, "goodput", share_of_all, points_text, false, false},
    OutcomeRow{metric::kCostDays.name, "training takes", days_text, days_text, false, true},
    OutcomeRow{metric::kCostGpuHours.name, "GPU hours", hours_text, hours_text, false, true},
    OutcomeRow{metric::kCostUsd.name, "training costs", usd_text, usd_text, false, true},
};

std::optional<double> metric_of(const RunSide& side, const char* metric) {
  const auto found = side.metrics.find(metric);
  if (found == side.metrics.end()) return std::nullopt;
  return found->second;
}

std::string line_of_outcome(const OutcomeRow& row, const Outcome& outcome) {
  const auto cell = [&row](const std::optional<double>& value) {
    return value ? row.text(*value) : "-";
  };
  std::string change;
  std::string share;
  if (outcome.a && outcome.b) {
    const double difference = *outcome.b - *outcome.a;
    const char* const sign = difference < 0.0 ? "-" : "+";
    change = difference == 0.0 ? "=" : sign + row.difference(std::abs(difference));
    if (row.has_share && *outcome.a > 0.0) {
      share = fmt::format("{:+.1f} %", kAll * difference / *outcome.a);
    }
  }
  std::string line = fmt::format("{:<20} {:>12} {:>12} {:>13} {:>10}", row.title, cell(outcome.a),
                                 cell(outcome.b), change, share);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::vector<Outcome> outcomes_of(const RunSide& a, const RunSide& b) {
  std::vector<Outcome> outcomes;
  for (const OutcomeRow& row : kRows) {
    Outcome outcome{row.metric, metric_of(a, row.metric), metric_of(b, row.metric)};
    const bool told = row.by_both ? outcome.a && outcome.b : outcome.a || outcome.b;
    if (told) outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

std::string goodput_words(const std::vector<Outcome>& outcomes) {
  const auto goodput = std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) {
    return outcome.metric == kGoodput;
  });
  if (goodput == outcomes.end()) return "";
  const std::string a = goodput->a ? share_of_all(*goodput->a) : "";
  const std::string b = goodput->b ? share_of_all(*goodput->b) : "";
  if (a == b) return "";
  if (a.empty()) return fmt::format("; B's goodput is {}, and A reckons with no failures", b);
  if (b.empty()) return fmt::format("; B reckons with no failures, and A's goodput is {}", a);
  return fmt::format("; B's goodput is {} instead of {}", b, a);
}

std::string outcomes_text(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes) {
    const auto* const row = std::find_if(
        kRows.begin(), kRows.end(),
        [&outcome](const OutcomeRow& other) { return other.metric == outcome.metric; });
    if (row != kRows.end()) text += line_of_outcome(*row, outcome);
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace shardsim
