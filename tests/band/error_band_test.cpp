#include "sim/run/band/error_band.hpp"

#include <catch2/catch.hpp>

#include "tests/band/some_rows.hpp"

namespace shardsim::test {
namespace {

const RunSetting kHere{"a100-sxm", "megatron", 8};

ErrorBand band_here(const SomeRows& some, const RunSetting& setting = kHere) {
  return *group_band(some.rows(), setting);
}

// So many tables of so many equal rows.
void add_tables(SomeRows& some, int count, std::size_t rows, double ratio) {
  for (int i = 0; i < count; ++i) some.add("t" + std::to_string(i), kHere, times(rows, ratio));
}

}  // namespace

TEST_CASE("a quantile stands where its share of the weight lies below, each value mid-weight") {
  // Middles at 1/8, 3/8, 5/8 and 7/8 of the weight.
  const std::vector<WeightedValue> four = {{4, 1}, {1, 1}, {3, 1}, {2, 1}};
  CHECK(weighted_quantile(four, 0.125) == 1.0);
  CHECK(weighted_quantile(four, 0.5) == 2.5);
  CHECK(weighted_quantile(four, 0.4375) == 2.25);
  CHECK(weighted_quantile(four, 0.0) == 1.0);
  CHECK(weighted_quantile(four, 1.0) == 4.0);
  // Middles at 3/8 and 7/8.
  CHECK(weighted_quantile({{8, 1}, {0, 3}}, 0.375) == 0.0);
  CHECK(weighted_quantile({{8, 1}, {0, 3}}, 0.625) == 4.0);
  CHECK(weighted_quantile({{7, 2}}, 0.9) == 7.0);
}

TEST_CASE("the narrowest interval leaves out the side that is farther away") {
  // Middles at 1/8, 3/8, 5/8 and 7/8: half of the weight lies from the first to the third, from the
  // second to the last, and so on between them.
  const Interval low = narrowest_interval({{1, 1}, {1, 1}, {1, 1}, {16, 1}}, 0.5);
  CHECK(low.low == 1.0);
  CHECK(low.high == 1.0);
  const Interval high = narrowest_interval({{0.125, 1}, {2, 1}, {2, 1}, {2, 1}}, 0.5);
  CHECK(high.low == 2.0);
  CHECK(high.high == 2.0);
  // Ratios count, not differences: from 1 to 3 is farther than from 3 to 8.
  const Interval even = narrowest_interval({{1, 1}, {2, 1}, {4, 1}, {8, 1}}, 0.5);
  CHECK(even.low == 3.0);
  CHECK(even.high == 8.0);
}

TEST_CASE("a group's band holds more than 8 of 10 of its tables, for one more may be anywhere") {
  CHECK(share_of_group(20) == Approx(0.8 * 21 / 20));
  CHECK(share_of_group(11) == Approx(0.8 * 12 / 11));
  CHECK(share_of_group(10) == 0.875);  // 0.88 would be more than that.
  CHECK(share_of_group(1) == 0.875);
}

TEST_CASE("the centre is the median, drawn to the model as if one more table stood there") {
  SomeRows some;
  some.add("a", kHere, times(5, 1.5)).add("b", kHere, times(70, 1.5));
  // Two of three parts of the way from 1 to 1.5.
  CHECK(centre_of(some.rows()) == Approx(1.0 + 0.5 * 2 / 3));
  CHECK(centre_of(SomeRows().add("a", kHere, times(5, 1.5)).rows()) == 1.0);
}

TEST_CASE("the centre is the model's number where tables left out are nearer to that") {
  // The centre of either table without itself is on the wrong side of the model.
  SomeRows apart;
  apart.add("a", kHere, times(9, 1.25)).add("b", kHere, times(9, 0.8));
  CHECK(centre_of(apart.rows()) == 1.0);
  SomeRows alike;
  alike.add("a", kHere, times(9, 1.25)).add("b", kHere, times(9, 1.125));
  CHECK(centre_of(alike.rows()) > 1.0);
}

TEST_CASE("with few tables of a quantity a band leaves out 3 of 100 rows at either end") {
  std::vector<double> ratios = times(94, 1.0);
  for (int i = 0; i < 3; ++i) {
    ratios.push_back(0.5);
    ratios.push_back(4.0);
  }
  const ErrorBand band = band_here(SomeRows().add("one", kHere, ratios));
  // The third and the fourth row have their middles at 2.5 and 3.5 of 100.
  CHECK(band.low == Approx(0.75));
  CHECK(band.high == Approx(2.5));
  CHECK(band.centre == 1.0);
  CHECK(band.rows == 100);
  CHECK(band.tables == 1);
  CHECK_FALSE(group_band({}, kHere));
}

TEST_CASE("with many tables a band is the narrowest interval of its group, and holds its centre") {
  SomeRows some;
  add_tables(some, 9, 10, 2.0);
  some.add("far", kHere, times(10, 64.0));
  const ErrorBand band = band_here(some);
  CHECK(band.tables == 10);
  CHECK(band.rows == 100);
  // 7/8 of the weight is at 2; the centre, 10/11 of the way from 1 to 2, is below.
  CHECK(band.high == 2.0);
  CHECK(band.centre == Approx(1.0 + 10.0 / 11.0));
  CHECK(band.low == band.centre);
  CHECK(band.bias == Approx(0.9 * -0.5 + 0.1 * (1.0 / 64.0 - 1.0)));
}

TEST_CASE("each table weighs the same, however many rows it has") {
  SomeRows some;
  some.add("many", kHere, times(900, 1.0)).add("few", kHere, times(2, 4.0));
  // Half of the weight is at 4: its middles are at 5/8 and 7/8, so 0.97 is beyond the last.
  CHECK(band_here(some).low == 1.0);
  CHECK(band_here(some).high == 4.0);
}

TEST_CASE("a band tells the ranks of its runs, and how many are on the device and with software") {
  RunSetting many = kHere;
  many.ranks = 512;
  SomeRows some;
  some.add("a", kHere, times(6, 1.0)).add("b", many, times(5, 1.0));
  some.add("b", {"a100-pcie", "composer", 64}, times(3, 1.0));
  const ErrorBand band = band_here(some);
  CHECK(band.level == 0);
  CHECK(band.rows == 11);
  CHECK(band.rows_on_device == 11);
  CHECK(band.least_ranks == 8);
  CHECK(band.most_ranks == 512);
  const ErrorBand other = band_here(some, {"a100-pcie", "composer", 64});
  CHECK(other.level == 1);
  CHECK(other.rows == 14);
  CHECK(other.rows_on_device == 3);
  CHECK(other.rows_with_software == 3);
}

}  // namespace shardsim::test
