#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

// Numbers for people: three significant digits and the unit in which they are short. Files for
// machines never use these.
namespace shardsim {

/// A share times this is in percent.
inline constexpr double kPercent = 100.0;

/// "1.23", "45.6", "789", "1,230,000": three significant digits, grouped by thousands.
[[nodiscard]] std::string format_number(double value);

/// "8.53 s", "456 ms", "12.3 us", "1.00 ps". Input in seconds.
[[nodiscard]] std::string format_seconds(double seconds);

/// Memory: powers of 1024, "43.1 GiB".
[[nodiscard]] std::string format_memory(double bytes);
[[nodiscard]] std::string format_memory(std::integral auto bytes) {
  return format_memory(static_cast<double>(bytes));
}

/// Traffic: powers of 1000 as links are sold, "1.93 GB".
[[nodiscard]] std::string format_traffic(double bytes);
[[nodiscard]] std::string format_traffic(std::integral auto bytes) {
  return format_traffic(static_cast<double>(bytes));
}

/// "64" as it is, "1,048,576" with separators; all digits.
[[nodiscard]] std::string format_count(std::int64_t count);
[[nodiscard]] std::string format_count(std::unsigned_integral auto count) {
  return format_count(static_cast<std::int64_t>(count));
}

/// "1 T", "300 B", "1.5 M", "720 k", "12": thousands of any amount. `given`: up to six digits, for
/// numbers that people choose; `three`: for computed numbers.
enum class Digits : std::uint8_t { given, three };
[[nodiscard]] std::string format_amount(double amount, Digits digits);

/// Splits `total` whole units in proportion to `values` (largest remainder, ties to the first), so
/// that rounded percentages and bars add up. All zero if the values are. REQUIRES: finite, >= 0.
[[nodiscard]] std::vector<int> apportion(const std::vector<double>& values, int total);

}  // namespace shardsim
