#include "tests/sample.hpp"

#include <array>
#include <string>

#include <catch2/catch.hpp>

namespace shardsim::test {

TEST_CASE("the parts of a list that samples take are of much the same size") {
  constexpr int kNames = 9600;
  for (const std::uint32_t parts : {3U, 30U, 48U}) {
    std::array<int, 48> sizes{};
    for (int i = 0; i < kNames; ++i) {
      ++sizes.at(part_of("dp " + std::to_string(i) + ", tp " + std::to_string(i % 4), parts));
    }
    for (std::uint32_t part = 0; part < parts; ++part) {
      INFO("part " << part << " of " << parts);
      // Drawn by chance, a part of 200 has a standard deviation of 14, a larger one relatively
      // less.
      CHECK(sizes.at(part) > kNames / parts * 0.6);
      CHECK(sizes.at(part) < kNames / parts * 1.4);
    }
  }
}

// The same figures stand in tests/tidy/sample_test.py.
TEST_CASE("a case is in the same part for tests in C++ and in Python") {
  CHECK(part_of("verify-gpt-ddp", 1000) == 577);
  CHECK(part_of("dp 3, tp 1", 1000) == 590);
  CHECK(part_of("", 1000) == 257);
}

}  // namespace shardsim::test
