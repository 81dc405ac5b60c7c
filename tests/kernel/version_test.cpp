#include "sim/kernel/version.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

TEST_CASE("the version is three numbers separated by dots") {
  const std::string text(version());
  REQUIRE(std::count(text.begin(), text.end(), '.') == 2);
  REQUIRE(std::all_of(text.begin(), text.end(),
                      [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; }));
  REQUIRE(std::isdigit(static_cast<unsigned char>(text.front())) != 0);
  REQUIRE(std::isdigit(static_cast<unsigned char>(text.back())) != 0);
}

}  // namespace
}  // namespace shardsim
