#include "sim/harness/testing/catch2.hpp"

#include "tests/harness_matchers/sample_report.hpp"

namespace shardsim {

namespace {

bool holds(const FailsWith& matcher, const CheckReport& report = test::sample_failure()) {
  return matcher.match(report);
}

}  // namespace

TEST_CASE("a check without a failure passes, and one with a failure fails with its code") {
  CHECK_THAT(CheckReport{}, Passes());
  CHECK_THAT(test::sample_failure(), !Passes());
  CHECK_THAT(test::sample_failure(), FailsWith("DEADLOCK"));
  CHECK_FALSE(holds(FailsWith("COLL_MISSING")));
  CHECK_FALSE(holds(FailsWith("DEADLOCK"), CheckReport{}));
  CHECK_FALSE(holds(FailsWith(""), CheckReport{}));
}

TEST_CASE("ranks and place are those of the side that is named first, and of no other alone") {
  CHECK(holds(FailsWith("DEADLOCK").on({2})));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").on({0, 1, 3})));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").on({1, 2})));
  CHECK(holds(FailsWith("DEADLOCK").at("ring.hpp")));
  CHECK(holds(FailsWith("DEADLOCK").at("src/ring.hpp", 41)));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").at("ring.hpp", 52)));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").at("ing.hpp")));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").at("other/src/ring.hpp")));
  CHECK(holds(FailsWith("DEADLOCK").on({2}).in("exchange")));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").in("train")));
}

TEST_CASE("where all are wrong together, ranks are those of all sides") {
  CHECK(holds(FailsWith("DEADLOCK").on({0, 1, 2, 3}).in("exchange")));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").on({0, 1, 2, 3, 4})));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").on({0, 1, 2, 3}).in("train")));
}

TEST_CASE("a call that some ranks miss has the place where the others made it") {
  CheckReport report = test::sample_failure();
  report.failure->sides[0].site = {};
  CHECK(holds(FailsWith("DEADLOCK").on({2}).at("ring.hpp", 52), report));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").on({2}).at("ring.hpp", 41), report));
}

TEST_CASE("ranks may be told in any order") {
  CheckReport report = test::sample_failure();
  std::swap(report.failure->sides[0], report.failure->sides[1]);
  CHECK(holds(FailsWith("DEADLOCK").on({3, 0, 1}), report));
}

TEST_CASE("a failure that names no side has neither ranks nor a place") {
  CheckReport report = test::sample_failure();
  report.failure->sides.clear();
  CHECK(holds(FailsWith("DEADLOCK"), report));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").on({2}), report));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").at("ring.hpp"), report));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").in("exchange"), report));
}

TEST_CASE("words are looked for in the whole report") {
  CHECK(holds(FailsWith("DEADLOCK").saying("post both")));
  CHECK_FALSE(holds(FailsWith("DEADLOCK").saying("post one")));
}

TEST_CASE("what Catch prints is the report, and what was expected instead") {
  const CheckReport report = test::sample_failure();
  CHECK(Catch::Detail::stringify(report) == report.to_text());
  CHECK(report.to_text().find("nobody can go on") != std::string::npos);
  CHECK(Passes().toString() == "expected: it passes");
  CHECK(FailsWith("DEADLOCK").toString() == "expected: it fails with DEADLOCK");
  CHECK(FailsWith("DEADLOCK").on({3, 0, 1}).at("a.hpp", 7).in("f").saying("x").toString() ==
        R"(expected: it fails with DEADLOCK on ranks 0-1,3 at a.hpp:7 in f() saying "x")");
}

}  // namespace shardsim
