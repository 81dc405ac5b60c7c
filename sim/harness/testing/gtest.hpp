#pragma once

#include <ostream>

#include <gtest/gtest.h>

#include "sim/harness/check.hpp"
#include "sim/harness/testing/expected_failure.hpp"

// Assertions for GoogleTest, without gmock. When one does not hold, GoogleTest prints the check's
// report.
//
//   EXPECT_TRUE(Passes(check(program, options)));
//   EXPECT_TRUE(FailsWith("COLL_MISSING").on({2}).at("my_sync.hpp")(check(program, options)));
namespace shardsim {
inline namespace gtest_assertions {

// NOLINTNEXTLINE(readability-identifier-naming): named as the matcher of the other frameworks.
[[nodiscard]] inline testing::AssertionResult Passes(const CheckReport& report) {
  if (report.passed()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << report.to_text();
}

class FailsWith final : public ExpectedFailure<FailsWith> {
 public:
  using ExpectedFailure::ExpectedFailure;
  [[nodiscard]] testing::AssertionResult operator()(const CheckReport& report) const {
    if (is(report)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << report.to_text() << "expected: it " << text();
  }
};

}  // namespace gtest_assertions

/// Prints a report in GoogleTest's own messages; GoogleTest looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(const CheckReport& report, std::ostream* out) { *out << report.to_text(); }

}  // namespace shardsim
