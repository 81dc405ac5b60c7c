#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {
namespace {

std::string bold(const std::string& text) { return "<strong>" + markup_text(text) + "</strong>"; }

std::string outcome_sentence(const Input& input) {
  const Result& result = input.result;
  if (result.diagnosis) {
    return fmt::format("The run ended with {}: {}. ", bold(result.diagnosis->code),
                       markup_text(result.diagnosis->summary));
  }
  if (result.find(metric::kOraclePassed) == nullptr) return {};
  return result.number(metric::kOraclePassed) == 1.0
             ? "The ranks together trained what the reference trains. "
             : "The ranks together did <strong>not</strong> train what the reference trains. ";
}

std::string step_sentence(const Input& input) {
  const auto step = input.result.number(metric::kStepTimeS);
  if (!step) return {};
  std::string text = "One step takes ";
  if (const MetricBand* const band = input.result.band_of(metric::kStepTimeS)) {
    std::string simulated = by_the_model(*band, *step);
    simulated.front() = 'B';
    text += fmt::format("{} ({}: {}). {}", bold(band_centre(*band)), markup_text(band_held(*band)),
                        markup_text(band_range(*band)), markup_text(simulated));
  } else {
    text += bold(format_seconds(*step));
  }
  const auto each = input.result.number(metric::kTokensPerSPerGpu);
  if (each && input.headline.ranks > 0) {
    text += fmt::format(", {} tokens per second on each of {} GPUs", format_number(*each),
                        format_count(input.headline.ranks));
  }
  if (const auto mfu = input.result.number(metric::kMfu)) {
    text += fmt::format(", {} of what they could compute (MFU)", bold(format_share(*mfu)));
  }
  return text + ". ";
}

std::string shares_sentence(const Input& input) {
  struct Part {
    const MetricRow& metric;
    const char* words;
  };
  constexpr std::array<Part, 4> kParts = {{{metric::kTimeComputeS, "computes"},
                                           {metric::kTimeExposedCommS, "waits for communication"},
                                           {metric::kTimeBubbleS, "idles in the pipeline"},
                                           {metric::kTimeHostS, "waits for the host"}}};
  std::vector<double> seconds;
  for (const Part& part : kParts) {
    seconds.push_back(input.result.number(part.metric).value_or(0));
  }
  const auto is_odd = [](double value) { return !std::isfinite(value) || value < 0; };
  if (std::ranges::any_of(seconds, is_odd)) return {};
  const std::vector<int> percents = apportion(seconds, 100);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    if (percents[i] > 0) words.push_back(fmt::format("{} {} %", kParts.at(i).words, percents[i]));
  }
  if (words.empty()) return {};
  std::string text = "The GPU that ends last " + words.front();
  for (std::size_t i = 1; i < words.size(); ++i) {
    text += (i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text + " of that time. ";
}

std::string memory_sentence(const Input& input) {
  // The device's figure decides whether a run fits; a run without one has that of its tensors.
  auto peak = input.result.number(metric::kMemoryDeviceBytesMax);
  if (!peak) peak = input.result.number(metric::kMemoryPeakBytesMax);
  if (!peak) return {};
  const double device = input.headline.device_memory_bytes;
  std::string text = "The fullest GPU needs " + bold(format_memory(*peak)) + " of memory";
  if (device <= 0) return text + ". ";
  if (*peak > device) return text + ", and has only " + format_memory(device) + ". ";
  return text + " of the " + format_memory(device) + " it has. ";
}

std::string cost_sentence(const Input& input) {
  const CostEstimate& cost = input.detail.cost;
  if (!(cost.tokens_total > 0) || !(cost.days > 0)) return {};
  const std::optional<double> factor = centre_factor(input.result);
  std::string text =
      fmt::format("Training on {} tokens takes {}{}", format_tokens(cost.tokens_total),
                  factor ? "about " : "", bold(format_days(cost.days * factor.value_or(1.0))));
  if (cost.usd > 0) text += " and costs " + bold(format_usd(cost.usd * factor.value_or(1.0)));
  text += ", if every step is like this one";
  if (const auto goodput = input.result.number(metric::kGoodputFraction)) {
    text += fmt::format(" and, with failures and checkpoints, {} of the work is kept",
                        bold(format_share(*goodput)));
  }
  return text + ".";
}

// The paragraph of the summary.
std::string plain_summary(const Input& input) {
  return outcome_sentence(input) + step_sentence(input) + shares_sentence(input) +
         memory_sentence(input) + cost_sentence(input);
}

std::string tile(const std::string& name, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"note\">{}</dd></div>\n",
      markup_text(name), markup_text(value), markup_text(note));
}

// The centre of the metric's band, with its range and what was simulated; else the latter alone.
std::string banded_tile(const Input& input, const MetricRow& metric, const char* name,
                        const std::string& note) {
  const auto simulated = input.result.number(metric);
  if (!simulated) return {};
  const MetricBand* const band = input.result.band_of(metric);
  if (band == nullptr) return tile(name, format_metric(metric.name, *simulated), note);
  return tile(name, band_centre(*band),
              band_held(*band) + ": " + band_range(*band) + "; " + by_the_model(*band, *simulated));
}

std::string memory_tiles(const Input& input) {
  const Result& result = input.result;
  std::string markup;
  if (const auto peak = result.number(metric::kMemoryPeakBytesMax)) {
    const double device = input.headline.device_memory_bytes;
    const std::string note = device > 0
                                 ? fmt::format("{} of {}, fullest rank",
                                               format_share(*peak / device), format_memory(device))
                                 : std::string("fullest rank");
    markup += tile("Memory, tensors", format_memory(*peak), note);
  }
  return markup + banded_tile(input, metric::kMemoryDeviceBytesMax, "Memory, on device",
                              "as nvidia-smi would show");
}

std::string goodput_tile(const Input& input) {
  const auto goodput = input.result.number(metric::kGoodputFraction);
  if (!goodput) return {};
  const auto low = input.result.number(metric::kGoodputFractionLow);
  const auto high = input.result.number(metric::kGoodputFractionHigh);
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  return tile("Goodput", percent(*goodput),
              low && high ? percent(*low) + " to " + percent(*high) : "work that is kept");
}

std::string draws_tile(const Input& input) {
  const auto count = input.result.number(metric::kDrawsCount);
  const auto low = input.result.number(metric::kDrawsStepTimeSP5);
  const auto high = input.result.number(metric::kDrawsStepTimeSP95);
  if (!count || !low || !high) return {};
  return tile("Step time, drawn faults", format_seconds(*low) + " to " + format_seconds(*high),
              "90 % of " + format_count(static_cast<std::int64_t>(*count)) + " draws");
}

std::string cost_tiles(const Input& input) {
  const CostEstimate& cost = input.detail.cost;
  if (!(cost.tokens_total > 0) || !(cost.days > 0)) return {};
  std::string tokens = "for " + format_tokens(cost.tokens_total) + " tokens";
  const std::optional<double> factor = centre_factor(input.result);
  if (factor) {
    const MetricBand& band = *input.result.band_of(metric::kStepTimeS);
    const double step = input.result.number(metric::kStepTimeS).value();
    tokens += fmt::format(": {} to {}, by the model {}", format_days(cost.days * band.low / step),
                          format_days(cost.days * band.high / step), format_days(cost.days));
  }
  const char* const about = factor ? "about " : "";
  std::string markup =
      tile("Time to train", about + format_days(cost.days * factor.value_or(1.0)), tokens);
  if (cost.usd > 0) {
    markup += tile("Cost", about + format_usd(cost.usd * factor.value_or(1.0)),
                   fmt::format("at ${:.2f} a GPU and hour", cost.usd_per_gpu_hour));
  }
  return markup;
}

// The headline numbers.
std::string tiles(const Input& input) {
  const Result& result = input.result;
  std::string markup;
  const auto add = [&](const MetricRow& row, const char* name, auto text, const std::string& note) {
    if (const auto value = result.number(row)) markup += tile(name, text(*value), note);
  };
  markup += banded_tile(input, metric::kStepTimeS, "Step time",
                        result.find(metric::kOraclePassed) == nullptr ? "no error band" : "");
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  const std::string& counts = input.headline.mfu_counts;
  add(metric::kMfu, "MFU", percent,
      "model FLOPs utilization" + (counts.empty() ? counts : ": " + counts));
  const auto all = result.number(metric::kTokensPerS);
  add(metric::kTokensPerSPerGpu, "Tokens/s/GPU", format_number,
      all ? format_number(*all) + " tokens/s in all" : std::string());
  add(metric::kModelTflopsPerGpu, "TFLOP/s/GPU", format_number, "of the model");
  markup += draws_tile(input) + memory_tiles(input) + goodput_tile(input) + cost_tiles(input);
  return markup.empty() ? markup : "<dl class=\"tiles\">\n" + markup + "</dl>\n";
}

// Failed checks and expectations, the diagnosis, warnings.
std::string problems(const Input& input) {
  const Result& result = input.result;
  std::string failed;
  for (const Check& check : result.checks) {
    if (check.passed) continue;
    failed += fmt::format("<li>check {}{}{}</li>\n", markup_text(check.name),
                          check.detail.empty() ? "" : ": ", markup_text(check.detail));
  }
  for (const ExpectationResult& row : result.expectations) {
    if (!row.passed) failed += "<li>expected " + markup_text(expectation_text(row)) + "</li>\n";
  }
  std::string markup;
  if (!failed.empty()) {
    markup += "<div class=\"box bad\"><h3>What failed</h3><ul>\n" + failed + "</ul></div>\n";
  }
  if (result.diagnosis) {
    markup += fmt::format("<div class=\"box bad\"><h3>Diagnosis</h3><pre>{}</pre></div>\n",
                          markup_lines(result.diagnosis->to_text()));
  }
  if (!result.warnings.empty()) {
    markup += fmt::format("<div class=\"box caution\"><h3>{}</h3><ul>\n{}</ul></div>\n",
                          count_of(result.warnings.size(), "warning"), list_items(result.warnings));
  }
  return markup;
}

struct Case {
  const char* name;
  double step = 1.0;      ///< Relative to the step time of this page.
  double training = 1.0;  ///< Relative to the steps that a training needs.
};

}  // namespace

std::string masthead(const Input& input) {
  const TextHeadline& headline = input.headline;
  std::string facts;
  for (const std::string& fact : facts_of(headline)) {
    facts += (facts.empty() ? "" : " · ") + markup_text(fact);
  }
  const std::string name = headline.name.empty() ? std::string("A training step") : headline.name;
  return fmt::format(
      "<p class=\"eyebrow\">shardsim: a simulated training step</p>\n<h1>{}</h1>\n"
      "<p class=\"facts\">{}</p>\n<button id=\"theme\" type=\"button\" hidden></button>\n",
      markup_text(name), facts);
}

std::string summary_part(const Input& input) {
  const Result& result = input.result;
  const bool is_ok = result.exit_code == 0;
  // Verdicts have a mark beside their colour; the functions that word them escape their text.
  return fmt::format("<p class=\"verdict {}\">{} {}</p>\n<p class=\"lead\">{}</p>\n{}{}",
                     is_ok ? "ok" : "bad", is_ok ? "✓" : "✗", markup_text(verdict_text(result)),
                     plain_summary(input), tiles(input), problems(input));
}

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
