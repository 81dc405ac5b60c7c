#include "tests/agreement/shown_number.hpp"

#include <cmath>
#include <cstdlib>
#include <map>

#include <catch2/catch.hpp>

namespace shardsim::test {

namespace {

double scale_of(const std::string& unit) {
  constexpr double kKibi = 1024;
  static const std::map<std::string, double> kScales = {{"", 1},
                                                        {"ps", 1e-12},
                                                        {"ns", 1e-9},
                                                        {"us", 1e-6},
                                                        {"ms", 1e-3},
                                                        {"s", 1},
                                                        {"%", 0.01},
                                                        {"KiB", kKibi},
                                                        {"MiB", std::pow(kKibi, 2)},
                                                        {"GiB", std::pow(kKibi, 3)},
                                                        {"TiB", std::pow(kKibi, 4)},
                                                        {"B", 1},
                                                        {"kB", 1e3},
                                                        {"MB", 1e6},
                                                        {"GB", 1e9},
                                                        {"TB", 1e12},
                                                        {"PB", 1e15},
                                                        {"k", 1e3},
                                                        {"M", 1e6},
                                                        {"T", 1e12}};
  INFO("unit " << unit);
  REQUIRE(kScales.count(unit) == 1);
  return kScales.at(unit);
}

// Half of the last digit that is shown. Whole numbers of more than three digits are rounded, too.
double half_of_last_digit(const std::string& digits, double value) {
  const std::size_t exponent = digits.find('e');
  const std::size_t point = digits.find('.');
  double last = 1;
  if (point != std::string::npos) {
    const std::size_t end = exponent == std::string::npos ? digits.size() : exponent;
    last = std::pow(10.0, -static_cast<double>(end - point - 1));
  } else if (std::fabs(value) >= 1000) {
    last = std::pow(10.0, std::floor(std::log10(std::fabs(value))) - 2);
  }
  if (exponent != std::string::npos) last *= std::pow(10.0, std::atoi(&digits[exponent + 1]));
  return last / 2;
}

}  // namespace

ShownNumber rounded(const std::string& metric, std::string_view text) {
  std::string digits;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != ' '; ++i) {
    if (text[i] != ',') digits += text[i];
  }
  while (i < text.size() && text[i] == ' ') ++i;
  const double scale = scale_of(std::string(text.substr(i)));
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  INFO(metric << ": \"" << text << "\"");
  REQUIRE(!digits.empty());
  REQUIRE(*end == '\0');
  // "0 s" is nothing at all, "0.0 %" may be a little.
  const bool is_nothing = value == 0 && digits.find('.') == std::string::npos;
  const double half = is_nothing ? 0 : half_of_last_digit(digits, value);
  // Three digits are cut from binary fractions: a half may fall to either side.
  constexpr double kSlack = 1 + 1e-9;
  return {metric, value * scale, half * scale * kSlack};
}

ShownNumber exact(const std::string& metric, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  INFO(metric << ": \"" << text << "\"");
  REQUIRE(!text.empty());
  REQUIRE(*end == '\0');
  return {metric, value, 0};
}

}  // namespace shardsim::test
