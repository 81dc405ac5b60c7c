#include "sim/question/amounts.hpp"

#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "reports/terminal_text.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

struct Suffix {
  char letter;
  double factor;
};

constexpr std::array kThousands = {Suffix{'k', 1e3}, Suffix{'m', 1e6}, Suffix{'b', 1e9},
                                   Suffix{'g', 1e9}, Suffix{'t', 1e12}};
constexpr std::array kDays = {Suffix{'h', 1.0 / 24.0}, Suffix{'d', 1.0}, Suffix{'w', 7.0},
                              Suffix{'y', 365.0}};

// The number times what its last letter stands for; none if it is not such a number above 0.
template <class Suffixes>
std::optional<double> read_with(std::string_view text, const Suffixes& suffixes) {
  double factor = 1.0;
  if (!text.empty()) {
    const auto last = static_cast<unsigned char>(text.back());
    for (const Suffix& suffix : suffixes) {
      if (std::tolower(last) != suffix.letter) continue;
      factor = suffix.factor;
      text.remove_suffix(1);
      break;
    }
  }
  const std::optional<double> number = parse_number<double>(text);
  if (!number || !(*number > 0.0) || !std::isfinite(*number * factor)) return std::nullopt;
  return *number * factor;
}

[[noreturn]] void refuse(std::string_view text, std::string_view option, const char* example) {
  throw UsageError(
      "E1335",
      fmt::format("{} {} is no amount above 0", option, escape_untrusted(std::string(text))),
      fmt::format("write {} {}", option, example));
}

}  // namespace

double read_amount(std::string_view text, std::string_view option) {
  const std::optional<double> amount = read_with(text, kThousands);
  if (!amount)
    refuse(text, option,
           "6M or 10T: a number with k, M, B (or G) or T, without a sign of a currency");
  return *amount;
}

double read_share(std::string_view text, std::string_view option) {
  const bool is_percent = text.ends_with('%');
  const std::optional<double> number =
      parse_number<double>(is_percent ? text.substr(0, text.size() - 1) : text);
  const double share = is_percent ? number.value_or(-1.0) / kPercent : number.value_or(-1.0);
  if (share >= 0.0 && share < 1.0) return share;
  throw UsageError("E1335",
                   fmt::format("{} {} is no share from 0 to below 1", option,
                               escape_untrusted(std::string(text))),
                   fmt::format("write {} 0.1 or {} 10%", option, option));
}

double read_days(std::string_view text, std::string_view option) {
  const std::optional<double> days = read_with(text, kDays);
  if (!days) refuse(text, option, "90d: h, d, w and y are hours, days, weeks and years");
  return *days;
}

}  // namespace shardsim
