#include "sim/diff/fail_if.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

constexpr double kPercent = 100.0;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

ChangeLimit parse_limit(const std::string& text) {
  const std::size_t sign = text.find_first_of("<>");
  if (sign != std::string::npos) {
    ChangeLimit limit{.metric = trimmed(text.substr(0, sign)), .above = text[sign] == '>'};
    std::string number = trimmed(text.substr(sign + 1));
    limit.relative = !number.empty() && number.back() == '%';
    if (limit.relative) number = trimmed(number.substr(0, number.size() - 1));
    if (!number.empty() && number.front() == '+') number.erase(0, 1);
    const char* const end = number.data() + number.size();
    const auto [last, error] = std::from_chars(number.data(), end, limit.limit);
    if (error == std::errc() && last == end && !number.empty() && !limit.metric.empty() &&
        std::isfinite(limit.limit)) {
      return limit;
    }
  }
  throw UsageError("E1344", fmt::format("--fail-if \"{}\" is no limit on a change", text),
                   "write \"METRIC > 2%\", \"METRIC < -5%\", or a change in the metric's own unit");
}

std::string breach_of(const ChangeLimit& limit, const RunComparison& comparison) {
  const auto pair =
      std::find_if(comparison.metrics.begin(), comparison.metrics.end(),
                   [&](const MetricPair& other) { return other.name == limit.metric; });
  if (pair == comparison.metrics.end()) {
    std::vector<std::string> known;
    for (const MetricPair& other : comparison.metrics) known.push_back(other.name);
    const std::string near = nearest(limit.metric, known);
    throw UsageError("E1344", fmt::format("A and B do not both tell \"{}\"", limit.metric),
                     near.empty() ? "they tell " + one_of_list(known) : "write \"" + near + "\"");
  }
  double change = pair->b - pair->a;
  if (limit.relative) {
    if (pair->a == 0.0 && change != 0.0) {
      throw UsageError("E1344",
                       fmt::format("\"{}\" is 0 in A: there is no percentage of it", limit.metric),
                       "give the limit in the metric's own unit, without %");
    }
    change = pair->a == 0.0 ? 0.0 : change / pair->a * kPercent;
  }
  if (limit.above ? change <= limit.limit : change >= limit.limit) return "";
  const char* const unit = limit.relative ? " %" : "";
  return fmt::format("{} changes by {:+.4g}{} ({} -> {}), {} {:g}{}", limit.metric, change, unit,
                     pair->a, pair->b, limit.above ? "more than" : "less than", limit.limit, unit);
}

}  // namespace shardsim
