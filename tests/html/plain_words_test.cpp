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

TEST_CASE("Whole numbers in words are grouped, names and sources keep their digits") {
  CHECK(html::grouped_digits("rank 1024 of 16384.") == "rank 1,024 of 16,384.");
  CHECK(html::grouped_digits("global batch 1536 (1 x 96 x 16 ranks), seq 2048, bf16") ==
        "global batch 1,536 (1 x 96 x 16 ranks), seq 2,048, bf16");
  CHECK(html::grouped_digits("megatron-core-2025, H1000, 1e-09, 3.14159, 0022728") ==
        "megatron-core-2025, H1000, 1e-09, 3.14159, 0022728");
  CHECK(html::grouped_digits("in 2018 it had 400000000 bytes", 5) ==
        "in 2018 it had 400,000,000 bytes");
  CHECK(html::grouped_digits("99999999999999999999") == "99999999999999999999");
}

TEST_CASE("A unit stays on the line of its number") {
  CHECK(html::unbroken("about 1.20 s") == "about 1.20&nbsp;s");
  CHECK(html::unbroken("<1>") == "&lt;1&gt;");
}

TEST_CASE("Shares have two digits") {
  CHECK(html::format_share(0.386) == "39 %");
  CHECK(html::format_share(0.085) == "8.5 %");
}

}  // namespace
}  // namespace shardsim
