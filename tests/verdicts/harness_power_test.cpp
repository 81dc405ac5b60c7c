#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/verdicts/summing_program.hpp"

// The smallest error that the harness' judge finds: gradients are 1 + 2^-k times the right ones,
// and the sums of the programs do not cancel.
namespace shardsim::test {

namespace {

constexpr int kLeastBits = 1;
constexpr int kMostBits = 20;
constexpr std::array<std::int64_t, 5> kElements = {1, 2, 4, 16, 256};
constexpr int kRanksOfPower = 4;
constexpr std::int64_t kSamplesOfPower = 12;

// The largest k from 1 to 20 that is found; 0: none was found.
int bits_the_judge_finds(SummingProgram program) {
  for (int bits = kMostBits; bits >= kLeastBits; --bits) {
    program.scale = 1.0 + std::ldexp(1.0, -bits);
    if (!check_summing(program).passed()) return bits;
  }
  return kLeastBits - 1;
}

// The median over programs of all ways and several seeds.
int median_of_bits(SummingProgram program) {
  using Way = SummingProgram::Way;
  program.ranks = kRanksOfPower;
  program.samples = kSamplesOfPower;
  std::vector<int> bits;
  for (const Way way : {Way::all_reduce, Way::reduce_scatter, Way::chain, Way::gathered}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      program.way = way;
      program.seed = seed;
      REQUIRE(check_summing(program).passed());
      bits.push_back(bits_the_judge_finds(program));
    }
  }
  std::sort(bits.begin(), bits.end());
  return bits[bits.size() / 2];
}

struct PowerRow {
  DType precision;
  bool adds_in_precision;
  int format_bits;  // The unit roundoff is 2^-this: what the format can show.
  std::array<int, kElements.size()> floor;
};
// The k that the judge of commit e647d66 found, by number of elements. In bf16 the floor is one bit
// lower where that judge was too strict with sums of few terms: it found 5 of one element added in
// double, and 4 of one element added in bf16.
constexpr std::array<PowerRow, 6> kPowerRows = {{{DType::fp32, false, 24, {20, 20, 20, 20, 20}},
                                                 {DType::fp32, true, 24, {20, 20, 20, 19, 19}},
                                                 {DType::bf16, false, 8, {4, 4, 4, 4, 4}},
                                                 {DType::bf16, true, 8, {3, 4, 4, 4, 3}},
                                                 {DType::fp16, false, 11, {7, 7, 7, 7, 7}},
                                                 {DType::fp16, true, 11, {7, 7, 7, 7, 6}}}};

}  // namespace

TEST_CASE("power: the smallest planted scale that the harness finds") {
  std::puts(
      "figures: 1 + 2^-k that the harness finds, median k of 20 programs, by number of elements:");
  for (const PowerRow& row : kPowerRows) {
    std::string line =
        fmt::format("figures:   {}, added in {} (format {}):", name_of(row.precision),
                    row.adds_in_precision ? "it" : "double", row.format_bits);
    for (std::size_t i = 0; i < kElements.size(); ++i) {
      const int bits = median_of_bits({.precision = row.precision,
                                       .elements = kElements[i],
                                       .adds_in_precision = row.adds_in_precision});
      line += fmt::format(" {}", bits);
      INFO(line << " of " << kElements[i] << " elements");
      CHECK(bits >= row.floor[i]);
    }
    std::puts(line.c_str());
  }
}

}  // namespace shardsim::test
