#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim::html {

namespace {

std::string tile(const std::string& name, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"note\">{}</dd></div>\n",
      markup_text(name), markup_text(value), markup_text(note));
}

std::string band_note(const Input& input, const MetricRow& metric) {
  for (const MetricBand& band : input.result.error_bands) {
    if (band.metric == metric.name) return band_held(band) + ": " + band_range(band);
  }
  return {};
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
  if (const auto device = result.number(metric::kMemoryDeviceBytesMax)) {
    const std::string band = band_note(input, metric::kMemoryDeviceBytesMax);
    markup += tile("Memory, on device", format_memory(*device),
                   band.empty() ? "as nvidia-smi would show" : band);
  }
  return markup;
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

std::string cost_tiles(const Input& input) {
  const CostEstimate& cost = input.detail.cost;
  if (!(cost.tokens_total > 0) || !(cost.days > 0)) return {};
  const std::string tokens = "for " + format_tokens(cost.tokens_total) + " tokens";
  std::string markup = tile("Time to train", format_days(cost.days), tokens);
  if (cost.usd > 0) {
    markup += tile("Cost", format_usd(cost.usd),
                   fmt::format("at ${:.2f} a GPU and hour", cost.usd_per_gpu_hour));
  }
  return markup;
}

// The headline numbers.
std::string tiles(const Input& input) {
  const Result& result = input.result;
  std::string markup;
  if (const auto step = result.number(metric::kStepTimeS)) {
    std::string note = band_note(input, metric::kStepTimeS);
    if (note.empty() && result.find(metric::kOraclePassed) == nullptr) note = "no error band";
    markup += tile("Step time", format_seconds(*step), note);
  }
  if (const auto mfu = result.number(metric::kMfu)) {
    markup += tile("MFU", fmt::format("{:.1f} %", 100 * *mfu), "model FLOPs utilization");
  }
  if (const auto rate = result.number(metric::kTokensPerSPerGpu)) {
    const auto all = result.number(metric::kTokensPerS);
    markup += tile("Tokens/s/GPU", format_number(*rate),
                   all ? format_number(*all) + " tokens/s in all" : std::string());
  }
  if (const auto rate = result.number(metric::kModelTflopsPerGpu)) {
    markup += tile("TFLOP/s/GPU", format_number(*rate), "of the model");
  }
  markup += memory_tiles(input) + goodput_tile(input) + cost_tiles(input);
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
  std::string warnings;
  for (const std::string& warning : result.warnings) {
    warnings += "<li>" + markup_text(warning) + "</li>\n";
  }
  if (!warnings.empty()) {
    markup += fmt::format("<div class=\"box caution\"><h3>{}</h3><ul>\n{}</ul></div>\n",
                          count_of(result.warnings.size(), "warning"), warnings);
  }
  return markup;
}

}  // namespace

std::string masthead(const Input& input) {
  const TextHeadline& headline = input.headline;
  const std::string ranks = headline.ranks == 0   ? std::string()
                            : headline.ranks == 1 ? std::string("1 rank")
                                                  : format_count(headline.ranks) + " ranks";
  std::string facts;
  for (const std::string& fact : {headline.model, headline.system, ranks, headline.layout,
                                  headline.precision, headline.batch}) {
    if (fact.empty()) continue;
    if (!facts.empty()) facts += " · ";
    facts += markup_text(fact);
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

}  // namespace shardsim::html
