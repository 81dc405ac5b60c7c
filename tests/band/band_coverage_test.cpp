#include "sim/run/band/band_coverage.hpp"

#include <catch2/catch.hpp>

#include "tests/band/some_rows.hpp"

namespace shardsim::test {

TEST_CASE("rows are counted inside bands with their table, and inside bands made without it") {
  const RunSetting here{"a100-sxm", "megatron", 8};
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
  CHECK(coverage.largest().name == "a");
  CHECK(coverage.share_but_largest() == 22.0 / 24.0);
}

TEST_CASE("what is said of a left-out table does not know it") {
  const RunSetting here{"a100-sxm", "megatron", 8};
  SomeRows apart;
  apart.add("a", here, times(20, 0.5)).add("b", here, times(20, 4.0));
  const BandCoverage coverage = band_coverage(apart.errors(), "step_time_s", "megatron");
  CHECK(coverage.inside() == 40);
  CHECK(coverage.inside_without() == 0);
  // One table has no centre but the model's.
  CHECK(coverage.mean_centre_error_without() == Approx((1.0 + 0.75) / 2));
  CHECK(coverage.mean_model_error() == Approx((1.0 + 0.75) / 2));
  SomeRows three;
  three.add("a", here, times(20, 2.0))
      .add("b", here, times(20, 4.0))
      .add("c", here, times(20, 2.0));
  // Without "a" the centre is between 1 and the median of "b" and "c", 3: two thirds of the way.
  CHECK(band_coverage(three.errors(), "step_time_s", "megatron").tables[0].centre_error_without ==
        Approx(20 * ((1.0 + 2.0 * 2 / 3) / 2.0 - 1.0)));
}

TEST_CASE("groups have their own figures, and say whose band they take") {
  const RunSetting dense{"a100-sxm", "megatron", 8};
  const RunSetting experts{"h100-sxm", "megatron", 8, true};
  SomeRows some;
  some.add("a", dense, times(10, 2.0)).add("b", dense, times(10, 2.0));
  some.add("b", experts, times(3, 8.0));
  const BandCoverage coverage = band_coverage(some.errors(), "step_time_s", "megatron");
  const auto group = [&](const std::string& name) {
    for (const GroupCoverage& each : coverage.groups) {
      if (each.group == name) return each;
    }
    FAIL(name);
    return GroupCoverage{};
  };
  const GroupCoverage small = group("dense models on ampere under megatron");
  CHECK(small.band_group == small.group);
  CHECK(small.rows == 20);
  CHECK(small.tables == 2);
  CHECK(small.inside_without == 20);
  CHECK(small.mean_share_without == Approx(1.0));
  CHECK(small.share_of_own_band == Approx(1.0));
  CHECK(small.bias == Approx(-0.5));
  // From 2/3 of the way between 1 and 2 up to 2: the model's 1 is outside.
  CHECK(small.width == Approx(2.0 / (1.0 + 2.0 / 3.0)));
  CHECK(small.outside == 20);
  const GroupCoverage few = group("models with experts");
  CHECK(few.rows == 3);
  CHECK(few.tables == 1);
  CHECK(few.band_group == "all models");
  CHECK(few.inside_without == 0);
  CHECK(few.mean_share_without == 0.0);
  const GroupCoverage all = coverage.groups.back();
  CHECK(all.group == "all models");
  CHECK(all.rows == 23);
  CHECK(all.band_group.empty());
  CHECK(all.inside_without == coverage.inside_without());
  CHECK(all.mean_share_without == Approx(coverage.mean_share_without()));
}

TEST_CASE("there is no coverage of fewer than two tables") {
  SomeRows some;
  some.add("a", {"a100-sxm", "megatron", 8}, times(20, 1.0));
  CHECK(band_coverage(some.errors(), "step_time_s", "megatron").tables.empty());
  CHECK(band_coverage(some.errors(), "peak_memory_bytes", "megatron").tables.empty());
}

TEST_CASE("the built-in errors' bands hold about 8 of 10 of tables that they do not know") {
  const std::vector<MeasuredError>& errors = built_in_measured_errors().errors;
  for (const char* quantity : {"step_time_s", "peak_memory_bytes"}) {
    for (const char* software : {"any", "none"}) {
      INFO(quantity << " " << software);
      const BandCoverage coverage = band_coverage(errors, quantity, software);
      REQUIRE(coverage.tables.size() >= 3);
      CHECK(coverage.mean_share_without() >= 0.75);
      CHECK(coverage.mean_share_without() <= 0.85);
      // Rows of one machine are most of those of steps.
      const bool is_step = coverage.largest().name == "vtrain_single_node";
      const double rows =
          static_cast<double>(coverage.inside_without()) / static_cast<double>(coverage.rows());
      const double share = is_step ? coverage.share_but_largest() : rows;
      CHECK(share >= 0.69);
      CHECK(share <= 0.9);
      // A headline is no worse than the model for tables that it does not know.
      CHECK(coverage.mean_centre_error_without() <= coverage.mean_model_error() + 1e-12);
    }
  }
}

}  // namespace shardsim::test
