#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/html/markup.hpp"
#include "reports/html/parts.hpp"
#include "reports/step_range.hpp"
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
  const bool has_band = input.result.band_of(metric::kStepTimeS) != nullptr;
  const auto centre = [&input](double by_the_model) {
    return range_with_step(input.result, by_the_model).centre;
  };
  std::string text =
      fmt::format("Training on {} tokens takes {}{}", format_tokens(cost.tokens_total),
                  has_band ? "about " : "", bold(format_days(centre(cost.days))));
  if (cost.usd > 0) text += " and costs " + bold(format_usd(centre(cost.usd)));
  text += ", if every step is like this one";
  if (const auto goodput = input.result.number(metric::kGoodputFraction)) {
    text += fmt::format(" and, with failures and checkpoints, {} of the work is kept",
                        bold(format_share(*goodput)));
  }
  return text + ".";
}

}  // namespace

std::string summary_words(const Input& input) {
  return outcome_sentence(input) + step_sentence(input) + shares_sentence(input) +
         memory_sentence(input) + cost_sentence(input);
}

}  // namespace shardsim::html
