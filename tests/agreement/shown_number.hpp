#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsim::test {

/// A number on a page, in the metric's unit, and how far rounding may have moved it; 0: all digits.
struct ShownNumber {
  std::string metric;
  double value = 0;
  double rounding = 0;
};
using ShownNumbers = std::vector<ShownNumber>;

/// Reads a number as pages print it for people: "1.63 s", "10,100", "43.1 GiB", "52.5 %", "720 k",
/// "2.31e-05". The unit gives the scale. The test ends if the text is no such number.
[[nodiscard]] ShownNumber rounded(const std::string& metric, std::string_view text);
/// Reads a number that is printed with all digits.
[[nodiscard]] ShownNumber exact(const std::string& metric, const std::string& text);

}  // namespace shardsim::test
