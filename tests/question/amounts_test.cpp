#include "sim/question/amounts.hpp"

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

namespace shardsim::test {

TEST_CASE("an amount is a number with thousands as a letter") {
  CHECK(read_amount("10T", "--tokens") == 10e12);
  CHECK(read_amount("1.5t", "--tokens") == 1.5e12);
  CHECK(read_amount("300B", "--tokens") == 300e9);
  CHECK(read_amount("300G", "--tokens") == 300e9);
  CHECK(read_amount("6M", "--budget") == 6e6);
  CHECK(read_amount("250k", "--budget") == 250e3);
  CHECK(read_amount("15e12", "--tokens") == 15e12);
  CHECK(read_amount("7", "--budget") == 7.0);
}

TEST_CASE("days may be given in hours, weeks and years") {
  CHECK(read_days("90d", "--deadline") == 90.0);
  CHECK(read_days("90", "--deadline") == 90.0);
  CHECK(read_days("12w", "--deadline") == 84.0);
  CHECK(read_days("48h", "--deadline") == 2.0);
  CHECK(read_days("1Y", "--deadline") == 365.0);
}

TEST_CASE("a share is a number or a percentage") {
  CHECK(read_share("0.05", "--memory-margin") == 0.05);
  CHECK(read_share("5%", "--memory-margin") == 0.05);
  CHECK(read_share("0", "--memory-margin") == 0.0);
  for (const char* const wrong : {"1", "100%", "-1%", "-0.1", "five", "%", "", "nan"}) {
    INFO(wrong);
    CHECK_THROWS_AS(read_share(wrong, "--memory-margin"), UsageError);
  }
}

TEST_CASE("what is no amount above 0 is refused with its option") {
  for (const char* const wrong :
       {"", "T", "10X", "10TT", "0", "-1M", "nan", "inf", "1e300T", " 5"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(read_amount(wrong, "--tokens"), Catch::Contains("--tokens"));
    CHECK_THROWS_AS(read_days(wrong, "--deadline"), UsageError);
  }
  CHECK_THROWS_AS(read_days("90m", "--deadline"), UsageError);  // Minutes, or months.
}

}  // namespace shardsim::test
