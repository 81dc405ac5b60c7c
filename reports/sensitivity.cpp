#include "reports/sensitivity.hpp"

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/terminal_text.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {
namespace {

std::string row_of(const SensitivityBar& bar) {
  if (!(bar.step_s > 0)) {
    return fmt::format("  {:<22}{:>9}  {:<26}no step: {}\n", bar.quantity, change_words(bar.by),
                       bar.setting, escape_untrusted(bar.note));
  }
  return fmt::format("  {:<22}{:>9}  {:<26}{:>10}{:>14}{:>14}\n", bar.quantity,
                     change_words(bar.by), bar.setting, format_seconds(bar.step_s),
                     format_number(bar.tokens_per_s), change_words(bar.change));
}

}  // namespace

std::string change_words(double change) {
  // No "-0.0 %".
  return std::abs(change) < 0.0005 ? "0.0 %" : fmt::format("{:+.1f} %", 100 * change);
}

std::string sensitivity_text(const Result& result, const TextHeadline& headline,
                             const RunDetail& detail) {
  std::string text = headline.name.empty() ? std::string() : escape_untrusted(headline.name) + "\n";
  text += fmt::format("  step {} by the model, {} tokens/s\n\n",
                      format_seconds(result.number(metric::kStepTimeS).value_or(0)),
                      format_number(result.number(metric::kTokensPerS).value_or(0)));
  text += fmt::format("  {:<22}{:>9}  {:<26}{:>10}{:>14}{:>14}\n", "changed", "by", "to", "step",
                      "tokens/s", "time/token");
  std::set<std::string> notes;
  for (const SensitivityBar& bar : detail.sensitivity) {
    text += row_of(bar);
    if (bar.step_s > 0 && !bar.note.empty()) notes.insert(bar.quantity + ": " + bar.note);
  }
  constexpr std::size_t kWidth = 96;
  constexpr std::size_t kIndent = 2;
  for (const std::string& note : notes) {
    for (const std::string& line : wrap_to_width(escape_untrusted(note), kWidth, kIndent)) {
      text += "  " + line + "\n";
    }
  }
  return text;
}

std::string sensitivity_json(const Result& result, const RunDetail& detail) {
  nlohmann::ordered_json root = {
      {metric::kStepTimeS.name, result.number(metric::kStepTimeS).value_or(0)},
      {metric::kTokensPerS.name, result.number(metric::kTokensPerS).value_or(0)},
      {"bars", nlohmann::ordered_json::array()}};
  for (const SensitivityBar& bar : detail.sensitivity) {
    nlohmann::ordered_json row = {{"quantity", bar.quantity},
                                  {"changed_by", bar.by},
                                  {"setting", bar.setting},
                                  {"set", bar.overrides}};
    if (bar.step_s > 0) {
      row[metric::kStepTimeS.name] = bar.step_s;
      row[metric::kTokensPerS.name] = bar.tokens_per_s;
      row["time_per_token_change"] = bar.change;
    }
    if (!bar.note.empty()) row["note"] = bar.note;
    root["bars"].push_back(std::move(row));
  }
  return root.dump(2, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace shardsim
