#include "sim/run/band/error_groups.hpp"

#include <catch2/catch.hpp>

#include "tests/band/some_rows.hpp"

namespace shardsim::test {
namespace {

const RunSetting kHopper{"h100-sxm", "megatron", 8};
const RunSetting kOtherHopper{"h200-sxm", "composer", 8};
const RunSetting kAmpere{"a100-sxm", "megatron", 8};
const RunSetting kExperts{"h100-sxm", "megatron", 8, true};
const RunSetting kUltra{"gb300", "megatron", 8};

}  // namespace

TEST_CASE("a run is held against the smallest of its groups with 9 rows and 2 tables") {
  SomeRows some;
  some.add("one", kHopper, times(5, 1.0)).add("two", kHopper, times(4, 1.0));
  CHECK(level_of(some.rows(), kHopper) == 0);
  CHECK(rows_like(some.rows(), kHopper, 0).size() == 9);
  // A row less, and a table less.
  SomeRows few;
  few.add("one", kHopper, times(5, 1.0)).add("two", kHopper, times(3, 1.0));
  few.add("two", kOtherHopper, times(1, 1.0));
  CHECK(level_of(few.rows(), kHopper) == 1);
  CHECK(rows_like(few.rows(), kHopper, 1).size() == 9);
  SomeRows one_table;
  one_table.add("one", kHopper, times(40, 1.0)).add("two", kAmpere, times(1, 1.0));
  CHECK(level_of(one_table.rows(), kHopper) == 2);
}

TEST_CASE("rows with experts are a group, and all models the last resort") {
  SomeRows some;
  some.add("one", kExperts, times(9, 1.0)).add("two", kHopper, times(30, 1.0));
  CHECK(level_of(some.rows(), kExperts) == 3);
  CHECK(rows_like(some.rows(), kExperts, 3).size() == 39);
  some.add("three", {"a100-sxm", "composer", 8, true}, times(1, 1.0));
  CHECK(level_of(some.rows(), kExperts) == 2);
  CHECK(rows_like(some.rows(), kExperts, 2).size() == 10);
  CHECK(level_of({}, kHopper) == 3);
}

TEST_CASE("groups have names, and say what too few runs share") {
  CHECK(group_name(kHopper, 0) == "dense models on hopper under megatron");
  CHECK(group_name(kUltra, 1) == "dense models on blackwell ultra");
  CHECK(group_name(kExperts, 2) == "models with experts");
  CHECK(group_name(kExperts, 3) == "all models");
  CHECK(group_name({"h100-sxm", "none", 8}, 0) == "dense models on hopper");
  CHECK(dropped_words(kHopper, 0).empty());
  CHECK(dropped_words(kHopper, 1) == "under megatron");
  CHECK(dropped_words(kUltra, 2) == "on blackwell ultra");
  CHECK(dropped_words(kExperts, 3) == "with experts");
  CHECK(dropped_words(kHopper, 3) == "without experts");
}

TEST_CASE("rows under frameworks and rows without one are not mixed, nor are quantities") {
  std::vector<MeasuredError> all = {{"step_time_s", "one", kHopper, 0.5},
                                    {"step_time_s", "one", {"h100-sxm", "none", 8}, 0.25},
                                    {"peak_memory_bytes", "one", kHopper, 0.0}};
  const auto only = [&](const char* quantity, const char* software) {
    const MeasuredRows rows = comparable_rows(all, quantity, software);
    REQUIRE(rows.size() == 1);
    return rows[0]->error;
  };
  CHECK(only("step_time_s", "composer") == 0.5);
  CHECK(only("step_time_s", "none") == 0.25);
  CHECK(only("peak_memory_bytes", "megatron") == 0.0);
}

}  // namespace shardsim::test
