#include "sim/run/band/error_band.hpp"

#include <catch2/catch.hpp>

#include "tests/band/some_rows.hpp"

namespace shardsim::test {
namespace {

const RunSetting kHere{"a100", "megatron", 8};
const RunSetting kOtherDevice{"h100", "megatron", 8};
const RunSetting kOtherSoftware{"a100", "composer", 8};
const RunSetting kOther{"h100", "composer", 8};

ErrorBand band_here(const SomeRows& some, const RunSetting& setting = kHere) {
  return *nearest_band(some.rows(), setting);
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

TEST_CASE("of one table the band goes from the 10th to the 90th percentile of its ratios") {
  // Five rows have their middles at 0.1, 0.3, 0.5, 0.7 and 0.9.
  const SomeRows some = SomeRows().add("one", kHere, {0.5, 1.0, 2.0, 4.0, 8.0});
  const ErrorBand band = band_here(some);
  CHECK(band.low == 0.5);
  CHECK(band.high == 8.0);
  CHECK(band.rows == 5);
  CHECK(band.tables == 1);
  CHECK_FALSE(nearest_band({}, kHere));
}

TEST_CASE("rows of the same device and software are taken where they are enough") {
  const SomeRows some = SomeRows()
                            .add("one", kHere, times(10, 2.0))
                            .add("two", kHere, times(10, 2.0))
                            .add("three", kOtherDevice, times(50, 4.0));
  const ErrorBand band = band_here(some);
  CHECK(band.likeness == Likeness::device_and_software);
  CHECK(band.rows == 20);
  CHECK(band.tables == 2);
  CHECK(band.rows_on_device == 20);
  CHECK(band.rows_with_software == 20);
  CHECK(band.low == 2.0);
  CHECK(band.high == 2.0);
}

TEST_CASE("with fewer rows, or one table, rows of the device or the software are taken, too") {
  SomeRows few;
  few.add("one", kHere, times(10, 2.0)).add("two", kHere, times(9, 2.0));
  few.add("three", kOtherDevice, times(1, 4.0)).add("four", kOtherSoftware, times(3, 4.0));
  few.add("five", kOther, times(50, 16.0));
  const ErrorBand band = band_here(few);
  CHECK(band.likeness == Likeness::device_or_software);
  CHECK(band.rows == 23);
  CHECK(band.rows_on_device == 22);
  CHECK(band.rows_with_software == 20);
  CHECK(band.tables == 4);
  CHECK(band.high == 4.0);

  SomeRows one_table;
  one_table.add("one", kHere, times(40, 2.0)).add("two", kOtherDevice, times(1, 4.0));
  one_table.add("three", kOther, times(1, 16.0));
  CHECK(band_here(one_table).likeness == Likeness::device_or_software);
  CHECK(band_here(one_table).tables == 2);
}

TEST_CASE("with too few of those all rows are taken, and it is said how many are alike") {
  SomeRows some;
  some.add("one", kOtherDevice, times(19, 2.0)).add("two", kOther, times(30, 4.0));
  const ErrorBand band = band_here(some);
  CHECK(band.likeness == Likeness::any);
  CHECK(band.rows_on_device == 0);
  CHECK(band.rows_with_software == 19);
  CHECK(band.tables == 2);
}

TEST_CASE("each table weighs the same, however many rows it has") {
  SomeRows some;
  some.add("many", kHere, times(900, 1.0)).add("few", kHere, times(2, 4.0));
  // Half of the weight is at 4: its middles are at 5/8 and 7/8, so 0.9 is beyond the last.
  CHECK(band_here(some).low == 1.0);
  CHECK(band_here(some).high == 4.0);
}

TEST_CASE("of each table the 20 rows nearest in ranks are taken, with all that are as near") {
  RunSetting near = kHere;
  near.ranks = 16;
  RunSetting as_near = kHere;
  as_near.ranks = 4;  // Half as many is as far as twice as many.
  RunSetting far = kHere;
  far.ranks = 64;
  SomeRows some;
  some.add("one", far, times(30, 8.0)).add("one", near, times(19, 2.0));
  some.add("one", as_near, times(3, 2.0)).add("two", far, times(2, 2.0));
  const ErrorBand band = band_here(some);
  CHECK(band.rows == 24);
  CHECK(band.high == 2.0);
  CHECK(band.least_ranks == 4);
  CHECK(band.most_ranks == 64);  // From the other table, which has no nearer ones.
  // Seen from 64 ranks the 30 rows are nearest.
  CHECK(band_here(some, far).rows == 32);
  CHECK(band_here(some, far).least_ranks == 64);
}

TEST_CASE("rows under frameworks and rows without one are not mixed, nor are quantities") {
  std::vector<MeasuredError> all = {{"step_time_s", "one", kHere, 0.5},
                                    {"step_time_s", "one", {"a100", "none", 8}, 0.25},
                                    {"peak_memory_bytes", "one", kHere, 0.0}};
  const auto only = [&](const char* quantity, const char* software) {
    const MeasuredRows rows = comparable_rows(all, quantity, software);
    REQUIRE(rows.size() == 1);
    return rows[0]->error;
  };
  CHECK(only("step_time_s", "composer") == 0.5);
  CHECK(only("step_time_s", "none") == 0.25);
  CHECK(only("peak_memory_bytes", "megatron") == 0.0);
}

TEST_CASE("bands are widened until they hold 8 of 10 rows of tables that they do not know") {
  // Five tables of equal rows. The bands of the other four, 1 to 2 or less, hold "a", "b" and "c";
  // "d" is a factor of 2 above, "e" one of 8 below.
  SomeRows some;
  some.add("a", kHere, times(20, 1.0)).add("b", kHere, times(20, 1.0));
  some.add("c", kHere, times(20, 1.0)).add("d", kHere, times(20, 2.0));
  some.add("e", kHere, times(20, 0.125));
  CHECK(widening_of(some.rows()) == 2.0);  // Four of five tables.
  CHECK(widening_of(SomeRows().add("a", kHere, times(20, 3.0)).rows()) == 1.0);
  SomeRows same;
  same.add("a", kHere, times(20, 4.0)).add("b", kHere, times(20, 4.0));
  CHECK(widening_of(same.rows()) == 1.0);
  // 8 of 10 tables are well inside: bands are never made narrower.
  SomeRows inside;
  inside.add("low", kHere, times(20, 1.0)).add("high", kHere, times(20, 4.0));
  for (const char* table : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    inside.add(table, kHere, times(20, 2.0));
  }
  CHECK(widening_of(inside.rows()) == 1.0);
  ErrorBand band;
  band.low = 0.5;
  band.high = 2.0;
  CHECK(widened(band, 2.0).low == 0.25);
  CHECK(widened(band, 2.0).high == 4.0);
}

}  // namespace shardsim::test
