#include "tests/sample.hpp"

#include <array>
#include <string>

#include <catch2/catch.hpp>

namespace shardsim::test {

TEST_CASE("the parts of a list that samples take are of much the same size") {
  for (const std::uint32_t parts : {2U, 3U, 4U, 16U}) {
    std::array<int, 16> sizes{};
    for (int i = 0; i < 1600; ++i) {
      ++sizes.at(part_of("dp " + std::to_string(i) + ", tp " + std::to_string(i % 4), parts));
    }
    for (std::uint32_t part = 0; part < parts; ++part) {
      INFO("part " << part << " of " << parts);
      // Drawn by chance, a part of 100 has a standard deviation of 10, a larger one relatively
      // less.
      CHECK(sizes.at(part) > 1600.0 / parts * 0.6);
      CHECK(sizes.at(part) < 1600.0 / parts * 1.4);
    }
  }
}

}  // namespace shardsim::test
