#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/html/plain_words.hpp"
#include "reports/units.hpp"

namespace shardsim::html {

namespace {

struct Case {
  const char* name;
  double factor;  ///< Of the step time that this page is about.
};

}  // namespace

// Days and cost are proportional to the step, so the band of the step is theirs as well.
std::string cost_part(const Input& input) {
  const CostEstimate& cost = input.detail.cost;
  const double step = input.result.number("step_time_s").value_or(0);
  if (!(cost.tokens_total > 0) || !(cost.days > 0) || !(step > 0)) return {};
  std::vector<Case> cases = {{"as simulated", 1.0}};
  for (const MetricBand& band : input.result.error_bands) {
    if (band.metric != "step_time_s") continue;
    cases.push_back({"lower end of the error band", band.low / step});
    cases.push_back({"upper end of the error band", band.high / step});
  }
  Table table(fmt::format("{} tokens on {} GPUs.", format_tokens(cost.tokens_total),
                          format_count(input.headline.ranks)),
              {{"step time", false},
               {"one step", true},
               {"time to train", true},
               {"GPU hours", true},
               {"cost", true}});
  for (const Case& each : cases) {
    table.add_row({each.name, format_seconds(step * each.factor),
                   format_days(cost.days * each.factor),
                   format_number(cost.gpu_hours * each.factor),
                   cost.usd > 0 ? format_usd(cost.usd * each.factor) : "no price given"});
  }
  std::string text = "Tokens divided by tokens per second; GPUs are paid all that time";
  if (cost.usd_per_gpu_hour > 0) {
    text += fmt::format(", at ${:.2f} a GPU and hour", cost.usd_per_gpu_hour);
  }
  return fmt::format(
      "<p>{}. Failures, checkpoints, evaluation and idle weeks are not in it unless the metrics "
      "say "
      "so.</p>\n{}",
      markup_text(text), table.markup());
}

}  // namespace shardsim::html
