#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// `shardsim calibrate` of what `shardsim collective` printed, and what it wrote.
namespace shardsim::test {

// Output of nccl-tests on two nodes of 8.
inline constexpr const char* kA100 = "tests/calibration/data/a100-2x8-all-reduce.txt";
inline constexpr const char* kB200 = "tests/calibration/data/b200-2x8-all-reduce.txt";

using Words = std::vector<std::string>;

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Output of `shardsim collective` for sizes from 8 bytes to 8 GiB on H100 nodes of 8.
inline std::string simulated(const std::string& operation, int ranks, const Words& more = {},
                             const std::string& first = "8", const std::string& last = "8G") {
  const Printed printed =
      shardsim(Words{"collective", operation, "--ranks", std::to_string(ranks), "-b", first, "-e",
                     last, "-f", "2", "-c", "0", "-n", "1", "-q"} +
               more);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  return printed.out;
}

// The text that is written for these outputs: a JSON object with comments.
inline std::string overlay_text_of(const TemporaryFolder& folder, const Words& words) {
  const Printed printed =
      shardsim(Words{"calibrate"} + words + Words{"--out", folder / "overlay.json"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  return content_of(folder / "overlay.json");
}

}  // namespace shardsim::test
