#include "reports/html/plain_words.hpp"

#include <array>

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

std::string format_tokens(double tokens) {
  constexpr std::array<const char*, 5> kUnits = {"", " k", " M", " B", " T"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && tokens >= 1000) {
    tokens /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", tokens, kUnits.at(unit));
}

std::string format_days(double days) {
  if (days < 1) return format_number(days * kHoursPerDay) + " hours";
  return format_number(days) + " days";
}

std::string format_share(double share) {
  const double percent = 100 * share;
  return percent >= 10 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1f} %", percent);
}

}  // namespace shardsim::html
