#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/metric_rows.hpp"

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"
#include "sim/diff/comparison.hpp"

namespace shardsim {
namespace {

std::string rate_text(double rate) {
  // From here on all digits are shown: three would hide the effect of a setting.
  constexpr double kHundred = 100.0;
  return rate < kHundred ? format_number(rate) : format_count(std::llround(rate));
}

std::string share_of_all(double share) { return fmt::format("{:.2f} %", kPercent * share); }
std::string points_text(double share) { return fmt::format("{:.2f} points", kPercent * share); }
std::string days_text(double days) { return format_number(days) + " days"; }
std::string hours_text(double hours) { return format_amount(hours, Digits::three); }
std::string usd_text(double usd) { return "$" + format_amount(usd, Digits::three); }

// The change as a share of A. Beside nothing, or next to nothing, there is no share: B's is new.
std::string share_text(double a, double difference) {
  constexpr double kMost = 1000.0;  // Times A.
  if (difference == 0.0) return "0.0 %";
  if (a == 0.0 || std::abs(difference / a) > kMost) return "new";
  const std::string text = fmt::format("{:+.1f} %", kPercent * difference / a);
  return text == "-0.0 %" || text == "+0.0 %" ? "0.0 %" : text;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

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
    OutcomeRow{metric::kGoodputFraction.name, "goodput", share_of_all, points_text, false, false},
    OutcomeRow{metric::kCostDays.name, "training takes", days_text, days_text, false, true},
    OutcomeRow{metric::kCostGpuHours.name, "GPU hours", hours_text, hours_text, false, true},
    OutcomeRow{metric::kCostUsd.name, "training costs", usd_text, usd_text, false, true},
};

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
      share = share_text(*outcome.a, difference);
    }
  }
  return without_trailing_blanks(fmt::format("{:<20} {:>12} {:>12} {:>13} {:>10}", row.title,
                                             cell(outcome.a), cell(outcome.b), change, share)) +
         "\n";
}

constexpr std::size_t kShownFields = 12;
constexpr std::size_t kShownAssumptions = 4;
constexpr std::size_t kWidth = 100;

using Format = std::function<std::string(double amount)>;

// Cuts between words, unless the last one is longer than a third of the line.
std::string cut(std::string text, std::size_t width) {
  if (text.size() <= width) return text;
  constexpr std::string_view kRest = " ...";
  const std::size_t most = width - kRest.size();
  const std::size_t space = text.rfind(' ', most);
  const bool has_end = space != std::string::npos && space >= width * 2 / 3;
  text.resize(has_end ? space : most);
  return without_trailing_blanks(text) + std::string(kRest);
}

std::string line_of(const DiffRow& row, const std::string& indent, const Format& format) {
  const auto difference = static_cast<double>(row.difference());
  const std::string share = share_text(static_cast<double>(row.a), difference);
  const std::string change =
      difference == 0.0 ? "=" : (difference < 0.0 ? "-" : "+") + format(std::abs(difference));
  return fmt::format("{:<20} {:>12} {:>12} {:>13} {:>10}\n", indent + row.name,
                     format(static_cast<double>(row.a)), format(static_cast<double>(row.b)), change,
                     share);
}

std::string table_text(const DiffTable& table, const Format& format) {
  std::string text = line_of(table.total, "", format);
  for (const DiffRow& row : table.rows) text += line_of(row, "  ", format);
  return text;
}

std::string side_text(const RunSide& side) {
  std::string text =
      cut(without_trailing_blanks(fmt::format("{}  {}   {}", side.letter, printable(side.file, 200),
                                              printable(side.what, 200))),
          kWidth) +
      "\n";
  if (side.fits.value_or(true)) return text;
  return text + fmt::format("   {} {}\n", side.letter, does_not_fit_words(side));
}

std::string fields_text(const std::vector<FieldChange>& fields) {
  if (fields.empty()) return "";
  std::string text = fmt::format("\nscenario: {} field{} differ{}\n", fields.size(),
                                 fields.size() == 1 ? "" : "s", fields.size() == 1 ? "s" : "");
  for (std::size_t i = 0; i < std::min(kShownFields, fields.size()); ++i) {
    const FieldChange& change = fields[i];
    text += cut(fmt::format("  {:<44} {} -> {}", printable(change.path, kWidth),
                            change.a.empty() ? "none" : printable(change.a, kWidth),
                            change.b.empty() ? "none" : printable(change.b, kWidth)),
                kWidth) +
            "\n";
  }
  if (fields.size() > kShownFields) {
    text += fmt::format("  ... and {} more (--json has all)\n", fields.size() - kShownFields);
  }
  return text;
}

std::string assumptions_text(const RunComparison& comparison) {
  if (comparison.only_in_a.empty() && comparison.only_in_b.empty()) return "";
  std::string text =
      fmt::format("\nassumptions: {} only in A, {} only in {}\n", comparison.only_in_a.size(),
                  comparison.only_in_b.size(), comparison.b.letter);
  for (const auto& [mark, list] : {std::pair(comparison.a.letter, &comparison.only_in_a),
                                   std::pair(comparison.b.letter, &comparison.only_in_b)}) {
    for (std::size_t i = 0; i < std::min(kShownAssumptions, list->size()); ++i) {
      text += cut(fmt::format("  {} {}", mark, (*list)[i]), kWidth) + "\n";
    }
    if (list->size() > kShownAssumptions) {
      text += fmt::format("  {} ... and {} more (--json has all)\n", mark,
                          list->size() - kShownAssumptions);
    }
  }
  return text;
}

std::string notes_text(const RunComparison& comparison) {
  std::string text;
  for (const RunSide* side : {&comparison.a, &comparison.b}) {
    for (const std::string& note : side->notes) text += "note: " + note + "\n";
  }
  const bool other =
      comparison.memory && std::ranges::find(comparison.memory->rows, kOtherPart, &DiffRow::name) !=
                               comparison.memory->rows.end();
  if (other) {
    text +=
        "note: each memory category is the largest over all ranks, but the peak is one rank's; "
        "\"other\" is the rest\n";
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::vector<Outcome> outcomes_of(const RunSide& a, const RunSide& b) {
  std::vector<Outcome> outcomes;
  for (const OutcomeRow& row : kRows) {
    Outcome outcome{row.metric, a.metric(row.metric), b.metric(row.metric)};
    const bool told = row.by_both ? outcome.a && outcome.b : outcome.a || outcome.b;
    if (told) outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

std::string outcomes_text(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes) {
    const auto* const row = std::ranges::find(kRows, outcome.metric, &OutcomeRow::metric);
    if (row != kRows.end()) text += line_of_outcome(*row, outcome);
  }
  return text.empty() ? "" : "\n" + text;
}

std::string diff_text(const RunComparison& comparison) {
  const Format time = [](double ps) { return format_seconds(seconds_of(std::llround(ps))); };
  const Format traffic = [](double bytes) { return format_traffic(bytes); };
  const Format memory = [](double bytes) {
    return bytes < 0.0 ? "-" + format_memory(-bytes) : format_memory(bytes);
  };
  std::string text =
      side_text(comparison.a) + side_text(comparison.b) + "\n" + sides_bands_text(comparison);
  text += fmt::format("{:<20} {:>12} {:>12} {:>13}\n", "", comparison.a.letter, comparison.b.letter,
                      "difference");
  text += table_text(comparison.time, time) + outcomes_text(comparison.outcomes);
  if (comparison.memory) text += "\n" + table_text(*comparison.memory, memory);
  if (!comparison.traffic.empty()) {
    text += "\ntraffic, all ranks\n";
    for (const DiffRow& row : comparison.traffic) text += line_of(row, "  ", traffic);
  }
  text += fields_text(comparison.fields) + assumptions_text(comparison) + notes_text(comparison);
  return text + "\n" + sentence_of(comparison) + "\n";
}

}  // namespace shardsim
