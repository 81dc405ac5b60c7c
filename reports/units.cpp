#include "reports/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

// Rounded before the unit is chosen: 999.6 us is 1.00 ms, not 1000 us.
double to_three_digits(double value) {
  return parse_number<double>(fmt::format("{:.2e}", value)).value_or(value);
}

std::string group_thousands(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

// A thousand KiB is written 0.977 MiB, so that no number has more than three digits.
template <std::size_t N>
std::string with_unit(double value, double step, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (unit + 1 < N && std::abs(to_three_digits(value)) >= 1000) {
    value /= step;
    ++unit;
  }
  return format_number(value) + " " + units[unit];
}

}  // namespace

std::string format_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  const double rounded = to_three_digits(value);
  const double size = std::abs(rounded);
  if (size < 0.01 || size >= 1e15) return fmt::format("{:.2e}", rounded);
  if (size < 1) return fmt::format("{:.3f}", rounded);
  if (size < 10) return fmt::format("{:.2f}", rounded);
  if (size < 100) return fmt::format("{:.1f}", rounded);
  return group_thousands(fmt::format("{:.0f}", rounded));
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (std::abs(to_three_digits(seconds)) >= 1) return format_number(seconds) + " s";
  return with_unit(seconds * 1e12, 1000, std::array{"ps", "ns", "us", "ms"});
}

std::string format_memory(double bytes) {
  return with_unit(bytes, 1024, std::array{"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string format_traffic(double bytes) {
  return with_unit(bytes, 1000, std::array{"B", "kB", "MB", "GB", "TB", "PB"});
}

std::string format_amount(double amount, Digits digits) {
  constexpr std::array kUnits = {"", " k", " M", " B", " T"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && std::abs(to_three_digits(amount)) >= 1000) {
    amount /= 1000;
    ++unit;
  }
  const std::string number =
      digits == Digits::given ? fmt::format("{:.6g}", amount) : format_number(amount);
  return number + kUnits.at(unit);
}

std::string format_count(std::int64_t count) { return group_thousands(std::to_string(count)); }

std::vector<int> apportion(const std::vector<double>& values, int total) {
  std::vector<int> parts(values.size(), 0);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (!(sum > 0)) return parts;
  std::vector<double> remainders(values.size());
  int left = total;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = values[i] / sum * total;
    parts[i] = static_cast<int>(exact);
    remainders[i] = exact - parts[i];
    left -= parts[i];
  }
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return remainders[i]; });
  for (std::size_t i = 0; left > 0 && i < order.size(); ++i, --left) ++parts[order[i]];
  return parts;
}

}  // namespace shardsim
