#include "reports/html/plain_words.hpp"

#include <fmt/format.h>

#include "reports/units.hpp"

namespace shardsim::html {

namespace {

constexpr double kMillion = 1e6;
constexpr double kHoursPerDay = 24;

}  // namespace

std::string format_usd(double usd) {
  if (usd >= 1000 * kMillion) return "$" + format_number(usd / (1000 * kMillion)) + " B";
  if (usd >= kMillion) return "$" + format_number(usd / kMillion) + " M";
  return "$" + format_number(usd);
}

std::string format_tokens(double tokens) { return format_amount(tokens, Digits::given); }

std::string format_days(double days) {
  if (days < 1) return format_number(days * kHoursPerDay) + " hours";
  return format_number(days) + " days";
}

std::string format_share(double share) {
  const double percent = 100 * share;
  return percent >= 10 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1f} %", percent);
}

}  // namespace shardsim::html
