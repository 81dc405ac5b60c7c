#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {
namespace {

struct Case {
  const char* name;
  double step = 1.0;      ///< Relative to the step time of this page.
  double training = 1.0;  ///< Relative to the steps that a training needs.
};

}  // namespace

// Days and cost are proportional to the step, so the band of the step is theirs as well.
std::string cost_part(const Input& input) {
  const CostEstimate& cost = input.detail.cost;
  const double step = input.result.number(metric::kStepTimeS).value_or(0);
  if (!(cost.tokens_total > 0) || !(cost.days > 0) || !(step > 0)) return {};
  std::vector<Case> cases;
  if (const MetricBand* const band = input.result.band_of(metric::kStepTimeS)) {
    cases.push_back({"centre of the error band", band->centre / step, 1.0});
    cases.push_back({"lower end of the error band", band->low / step, 1.0});
    cases.push_back({"upper end of the error band", band->high / step, 1.0});
  }
  cases.push_back({"by the model", 1.0, 1.0});
  if (const auto kept = input.result.number(metric::kGoodputFraction)) {
    const auto add = [&](const char* name, const MetricRow& metric) {
      const auto other = input.result.number(metric);
      if (other && *other > 0) cases.push_back({name, 1.0, *kept / *other});
    };
    add("failures as frequent as their count allows", metric::kGoodputFractionLow);
    add("failures as rare as their count allows", metric::kGoodputFractionHigh);
  }
  const auto add_draw = [&](const char* name, const MetricRow& of_step, const MetricRow& of_days) {
    const auto drawn_step = input.result.number(of_step);
    const auto days = input.result.number(of_days);
    if (!drawn_step || !days) return;
    cases.push_back({name, *drawn_step / step, *days / cost.days / (*drawn_step / step)});
  };
  add_draw("drawn faults, 5 % are below", metric::kDrawsStepTimeSP5, metric::kDrawsDaysP5);
  add_draw("drawn faults, 95 % are below", metric::kDrawsStepTimeSP95, metric::kDrawsDaysP95);
  Table table(fmt::format("{} tokens on {} GPUs.", format_tokens(cost.tokens_total),
                          format_count(input.headline.ranks)),
              text_and_numbers({"case", "one step", "time to train", "GPU hours", "cost"}));
  for (const Case& each : cases) {
    const double factor = each.step * each.training;
    table.add_row({each.name, format_seconds(step * each.step), format_days(cost.days * factor),
                   format_number(cost.gpu_hours * factor),
                   cost.usd > 0 ? format_usd(cost.usd * factor) : "no price given"});
  }
  const auto goodput = input.result.number(metric::kGoodputFraction);
  std::string text = goodput ? fmt::format(
                                   "Tokens divided by the tokens per second that are kept, "
                                   "{} of those of a step (goodput); GPUs are paid all "
                                   "that time",
                                   format_share(*goodput))
                             : "Tokens divided by tokens per second; GPUs are paid all that time";
  if (cost.usd_per_gpu_hour > 0) {
    text += fmt::format(", at ${:.2f} a GPU and hour", cost.usd_per_gpu_hour);
  }
  const char* const left_out = goodput ? "Evaluation and planned downtime are not included."
                                       : "Downtime, checkpoints and evaluation are not included.";
  return fmt::format("<p>{}. {}</p>\n{}", markup_text(text), left_out, table.markup());
}

}  // namespace shardsim::html
