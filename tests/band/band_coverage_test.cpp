#include <catch2/catch.hpp>

#include "sim/run/band/error_band.hpp"

#include "tests/band/some_rows.hpp"

namespace shardsim::test {

TEST_CASE("rows are counted inside bands with their table, and inside bands made without it") {
  const RunSetting here{"a100", "megatron", 8};
  SomeRows some;
  some.add("a", here, times(20, 1.0)).add("b", here, times(20, 1.0));
  some.add("c", here, {1.0, 1.0, 8.0, 8.0});
  const BandCoverage coverage = band_coverage(some.errors(), "step_time_s", "megatron");
  REQUIRE(coverage.tables.size() == 3);
  CHECK(coverage.rows() == 44);
  CHECK(coverage.inside() == 44);
  CHECK(coverage.tables[0].name == "a");
  CHECK(coverage.tables[0].inside_without == 20);
  // Its two rows at 8 are far outside of what "a" and "b" say.
  CHECK(coverage.tables[2].rows == 4);
  CHECK(coverage.tables[2].inside_without == 2);
  CHECK(coverage.inside_without() == 42);
  CHECK(coverage.mean_share_without() == (1.0 + 1.0 + 0.5) / 3.0);
  // 2.5 of 3 tables are held already: more than 8 of 10.
  CHECK(coverage.widening == 1.0);
}

TEST_CASE("what is said of a left-out table does not know it, nor by the widening") {
  const RunSetting here{"a100", "megatron", 8};
  SomeRows some;
  some.add("a", here, times(20, 1.0)).add("b", here, times(20, 4.0));
  const BandCoverage coverage = band_coverage(some.errors(), "step_time_s", "megatron");
  CHECK(coverage.widening == 4.0);
  CHECK(coverage.inside() == 40);
  CHECK(coverage.inside_without() == 0);
  // The centres of "a" are those of "b", 4 instead of 1, and the other way round.
  CHECK(coverage.mean_centre_error_without() == Approx((3.0 + 0.75) / 2));
  CHECK(coverage.mean_model_error() == Approx((0.0 + 0.75) / 2));
}

TEST_CASE("there is no coverage of fewer than two tables") {
  SomeRows some;
  some.add("a", {"a100", "megatron", 8}, times(20, 1.0));
  CHECK(band_coverage(some.errors(), "step_time_s", "megatron").tables.empty());
  CHECK(band_coverage(some.errors(), "peak_memory_bytes", "megatron").tables.empty());
}

}  // namespace shardsim::test
