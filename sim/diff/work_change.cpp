#include "sim/diff/work_change.hpp"

#include <cmath>

#include <fmt/format.h>

#include "sim/kernel/metric_rows.hpp"

#include "reports/units.hpp"
#include "sim/diff/traits.hpp"

namespace shardsim {

namespace {

constexpr double kPercentOfAll = 100.0;
// From here on a factor reads better than percents.
constexpr double kTwice = 2.0;
// Below this two decimals are too few.
constexpr double kTenth = 0.1;
// Smaller percents get a second decimal.
constexpr double kOnePercent = 1.0;
constexpr const char* kSame = "the same";

StepWork work_of(const RunSide& side) {
  const auto all = side.metrics.find(metric::kTokensPerS.name);
  const auto per_gpu = side.metrics.find(metric::kTokensPerSPerGpu.name);
  if (all == side.metrics.end() || per_gpu == side.metrics.end()) return {};
  if (!(all->second > 0.0) || !(per_gpu->second > 0.0)) return {};
  return {.tokens = std::llround(all->second * seconds_of(side.step_ps)),
          .gpus = std::llround(all->second / per_gpu->second),
          .tokens_per_s = all->second};
}

// "0.05 % more", "2.10 times the", "the same": words before the quantity that has the factor.
std::string factor_words(double factor) {
  if (factor < kTenth) return fmt::format("{} times the", format_number(factor));
  if (factor >= kTwice || factor <= 1.0 / kTwice) return fmt::format("{:.2f} times the", factor);
  const double percent = std::abs(factor - 1.0) * kPercentOfAll;
  const std::string number =
      percent < kOnePercent ? fmt::format("{:.2f}", percent) : fmt::format("{:.1f}", percent);
  if (number == "0.00") return kSame;
  return fmt::format("{} % {}", number, factor > 1.0 ? "more" : "fewer");
}

std::string step_words(const RunSide& a, const RunSide& b) {
  const std::string of_a = format_seconds(seconds_of(a.step_ps));
  const std::string of_b = format_seconds(seconds_of(b.step_ps));
  if (of_a == of_b) return fmt::format("step takes {} as A's does", of_b);
  return fmt::format("step takes {} instead of {}", of_b, of_a);
}

double factor_of(double a, double b) { return b / a; }

}  // namespace

std::optional<WorkChange> work_change(const RunSide& a, const RunSide& b) {
  if (a.is_measured() || b.is_measured()) return std::nullopt;
  WorkChange change{.model = model_change(a, b), .a = work_of(a), .b = work_of(b)};
  if (!change.a.is_told() || !change.b.is_told()) change.a = change.b = {};
  const bool same = change.a.tokens == change.b.tokens && change.a.gpus == change.b.gpus;
  if (same && change.model.empty()) return std::nullopt;
  return change;
}

bool is_same_rate(const WorkChange& change) {
  return change.a.is_told() &&
         factor_words(factor_of(change.a.per_gpu(), change.b.per_gpu())) == kSame;
}

std::string work_words(const WorkChange& change, const RunSide& a, const RunSide& b) {
  std::string words =
      change.model.empty() ? "B's " : fmt::format("B is another model ({}): its ", change.model);
  words += step_words(a, b);
  if (!change.a.is_told()) return words;
  const StepWork& of_a = change.a;
  const StepWork& of_b = change.b;
  const bool other_gpus = of_a.gpus != of_b.gpus;
  if (other_gpus) {
    words +=
        fmt::format(", on {} instead of {} GPUs", format_count(of_b.gpus), format_count(of_a.gpus));
  }
  if (of_a.tokens != of_b.tokens) {
    const double factor =
        factor_of(static_cast<double>(of_a.tokens), static_cast<double>(of_b.tokens));
    words += fmt::format("{} for {} tokens", other_gpus ? " and" : ",", factor_words(factor));
  }
  words += fmt::format("{} {} tokens/s per GPU", change.model.empty() ? ":" : ", with",
                       factor_words(factor_of(of_a.per_gpu(), of_b.per_gpu())));
  if (other_gpus) {
    words += fmt::format(" and {} tokens/s in all",
                         factor_words(factor_of(of_a.tokens_per_s, of_b.tokens_per_s)));
  }
  return words;
}

}  // namespace shardsim
