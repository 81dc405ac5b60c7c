#include "sim/harness/testing/gtest.hpp"

#include <gtest/gtest-spi.h>

#include "tests/harness_matchers/sample_report.hpp"

namespace shardsim {

TEST(GtestAssertions, HoldForWhatTheySay) {
  EXPECT_TRUE(Passes(CheckReport{}));
  EXPECT_FALSE(Passes(test::sample_failure()));
  EXPECT_TRUE(FailsWith("DEADLOCK").on({2}).at("ring.hpp", 41)(test::sample_failure()));
  EXPECT_FALSE(FailsWith("DEADLOCK").on({1})(test::sample_failure()));
  EXPECT_FALSE(FailsWith("DEADLOCK")(CheckReport{}));
}

TEST(GtestAssertions, PrintTheReport) {
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(Passes(test::sample_failure())), "nobody can go on");
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(FailsWith("DEADLOCK").on({1})(test::sample_failure())),
                          "expected: it fails with DEADLOCK on rank 1");
  EXPECT_EQ(testing::PrintToString(test::sample_failure()), test::sample_failure().to_text());
}

}  // namespace shardsim
