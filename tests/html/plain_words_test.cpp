#include <catch2/catch.hpp>

#include "reports/html/markup.hpp"

namespace shardsim {
namespace {

TEST_CASE("Money is short, and never more exact than it is known") {
  CHECK(html::format_usd(105'945) == "$106,000");
  CHECK(html::format_usd(1'234'000) == "$1.23 M");
  CHECK(html::format_usd(2'500'000'000) == "$2.50 B");
  CHECK(html::format_usd(12.34) == "$12.3");
}

TEST_CASE("Tokens are counted in the words of model cards") {
  CHECK(html::format_tokens(1e12) == "1 T");
  CHECK(html::format_tokens(15.6e12) == "15.6 T");
  CHECK(html::format_tokens(300e9) == "300 B");
  CHECK(html::format_tokens(512) == "512");
}

TEST_CASE("Less than a day is told in hours") {
  CHECK(html::format_days(94.2) == "94.2 days");
  CHECK(html::format_days(0.5) == "12.0 hours");
}

TEST_CASE("Shares have two digits") {
  CHECK(html::format_share(0.386) == "39 %");
  CHECK(html::format_share(0.085) == "8.5 %");
}

}  // namespace
}  // namespace shardsim
