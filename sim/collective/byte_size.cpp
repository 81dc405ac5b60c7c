#include "sim/collective/byte_size.hpp"

#include <charconv>
#include <cmath>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// 0: no unit.
double unit_of(const std::string& text) {
  if (text.empty()) return 1.0;
  if (text == "K" || text == "k") return 1024.0;
  if (text == "M" || text == "m") return 1024.0 * 1024.0;
  if (text == "G" || text == "g") return 1024.0 * 1024.0 * 1024.0;
  return 0.0;
}

}  // namespace

std::int64_t byte_size_of(const std::string& text, const std::string& option) {
  constexpr double kMost = 1e15;
  double number = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  std::string rest(stop, end);
  rest.erase(0, rest.find_first_not_of(' '));
  const double bytes = number * unit_of(rest);
  const bool good = error == std::errc() && unit_of(rest) > 0 && std::isfinite(bytes) &&
                    bytes >= 0 && bytes <= kMost && bytes == std::floor(bytes);
  if (!good) {
    throw UsageError(
        "E1080", "\"" + text + "\" is no size for " + option,
        "write whole bytes, or a number with K, M or G (powers of 1024): 8, 64K, 256M");
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace shardsim
