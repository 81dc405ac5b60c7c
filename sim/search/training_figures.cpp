#include "sim/search/training_figures.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/metric_rows.hpp"

#include "reports/units.hpp"
#include "sim/run/whole_training.hpp"

namespace shardsim {

namespace {

constexpr double kHoursOfDay = 24.0;

BandRange times(const BandRange& range, double factor) {
  return {range.low * factor, range.centre * factor, range.high * factor,
          range.by_the_model * factor};
}

nlohmann::ordered_json range_json(const BandRange& range) {
  return {{"low", range.low},
          {"centre", range.centre},
          {"high", range.high},
          {"by_the_model", range.by_the_model}};
}

}  // namespace

TrainingFigures training_figures(const Result& measured, double tokens, double usd_per_gpu_hour) {
  TrainingFigures figures;
  const double rate = measured.number(metric::kTokensPerS).value();
  figures.goodput = measured.number(metric::kGoodputFraction);
  figures.tokens_per_s = range_against_step(measured, rate);
  figures.days =
      range_with_step(measured, training_days(tokens, rate * figures.goodput.value_or(1.0)));
  figures.gpu_hours = times(figures.days, kHoursOfDay * measured.number(metric::kRanks).value());
  if (usd_per_gpu_hour > 0) figures.usd = times(figures.gpu_hours, usd_per_gpu_hour);
  return figures;
}

std::string downtime_words(const std::optional<double>& least, const std::optional<double>& most) {
  if (!least || !most) return "downtime not included (--failures gpu_mtbf_hours=...)";
  std::string share = fmt::format("{:.1f}", *least * kPercent);
  const std::string high = fmt::format("{:.1f}", *most * kPercent);
  if (high != share) share += " to " + high;
  return fmt::format("downtime included: a goodput of {} %, after failures and checkpoints", share);
}

std::string training_words(const TrainingFigures& figures, double tokens) {
  const BandRange& days = figures.days;
  std::string text = fmt::format(
      "{} tokens take {}", format_amount(tokens, Digits::given),
      days.low == days.high ? format_number(days.centre) + " days"
                            : fmt::format("about {} days ({} to {})", format_number(days.centre),
                                          format_number(days.low), format_number(days.high)));
  text += fmt::format(", {} GPU hours", format_amount(figures.gpu_hours.centre, Digits::three));
  if (figures.usd) text += ", $" + format_amount(figures.usd->centre, Digits::three);
  return text;
}

void add_training(nlohmann::ordered_json& json, const TrainingFigures& figures) {
  json[metric::kTokensPerS.name] = range_json(figures.tokens_per_s);
  json["goodput"] = figures.goodput ? nlohmann::ordered_json(*figures.goodput) : nullptr;
  json["days"] = range_json(figures.days);
  json["gpu_hours"] = range_json(figures.gpu_hours);
  if (figures.usd) json["usd"] = range_json(*figures.usd);
}

}  // namespace shardsim
