#include "reports/units.hpp"

#include <limits>
#include <numeric>

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

namespace shardsim {
namespace {

TEST_CASE("numbers have three significant digits") {
  REQUIRE(format_number(0) == "0");
  REQUIRE(format_number(1.2345) == "1.23");
  REQUIRE(format_number(9.996) == "10.0");
  REQUIRE(format_number(45.67) == "45.7");
  REQUIRE(format_number(789.4) == "789");
  REQUIRE(format_number(8647.2) == "8,650");
  REQUIRE(format_number(1234567) == "1,230,000");
  REQUIRE(format_number(0.4126) == "0.413");
  REQUIRE(format_number(3.14e-15) == "3.14e-15");
  REQUIRE(format_number(-1500) == "-1,500");
  REQUIRE(format_number(-150) == "-150");
  REQUIRE(format_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
  REQUIRE(format_number(-std::numeric_limits<double>::infinity()) == "-inf");
}

TEST_CASE("times, memory and traffic choose the unit after rounding") {
  REQUIRE(format_seconds(8.532) == "8.53 s");
  REQUIRE(format_seconds(0.4561) == "456 ms");
  REQUIRE(format_seconds(0.0009996) == "1.00 ms");
  REQUIRE(format_seconds(0.9996) == "1.00 s");
  REQUIRE(format_seconds(1e-12) == "1.00 ps");
  REQUIRE(format_seconds(0) == "0 s");
  REQUIRE(format_memory(46278000000.0) == "43.1 GiB");
  REQUIRE(format_memory(1024) == "1.00 KiB");
  REQUIRE(format_memory(1000) == "0.977 KiB");
  REQUIRE(format_memory(999) == "999 B");
  REQUIRE(format_memory(0) == "0 B");
  REQUIRE(format_traffic(1.93e9) == "1.93 GB");
  REQUIRE(format_traffic(999.9e9) == "1.00 TB");
  REQUIRE(format_traffic(3e18) == "3,000 PB");
}

TEST_CASE("counts keep every digit") {
  REQUIRE(format_count(64) == "64");
  REQUIRE(format_count(1048576) == "1,048,576");
  REQUIRE(format_count(-1234) == "-1,234");
}

TEST_CASE("apportioned parts add up to the whole and each is a rounding of its share") {
  REQUIRE(apportion({1, 1, 1}, 100) == std::vector<int>{34, 33, 33});
  REQUIRE(apportion({0, 5}, 1000) == std::vector<int>{0, 1000});
  REQUIRE(apportion({0, 0}, 10) == std::vector<int>{0, 0});
  rc::prop("largest remainder", [](const std::vector<std::uint32_t>& raw) {
    const std::vector<double> values(raw.begin(), raw.end());
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    RC_PRE(sum > 0);
    const std::vector<int> parts = apportion(values, 1000);
    RC_ASSERT(std::accumulate(parts.begin(), parts.end(), 0) == 1000);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double exact = values[i] / sum * 1000;
      RC_ASSERT(parts[i] > exact - 1 - 1e-9);  // The quotient itself is rounded.
      RC_ASSERT(parts[i] < exact + 1 + 1e-9);
    }
  });
}

TEST_CASE("amounts are told in thousands, chosen ones as they were chosen") {
  REQUIRE(format_amount(1e12, Digits::given) == "1 T");
  REQUIRE(format_amount(3e11, Digits::given) == "300 B");
  REQUIRE(format_amount(1.25e6, Digits::given) == "1.25 M");
  REQUIRE(format_amount(15, Digits::given) == "15");
  REQUIRE(format_amount(720123, Digits::three) == "720 k");
  REQUIRE(format_amount(999.9e3, Digits::three) == "1.00 M");
  REQUIRE(format_amount(12.34, Digits::three) == "12.3");
  REQUIRE(format_amount(0, Digits::three) == "0");
}

}  // namespace
}  // namespace shardsim
