#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "sim/harness/testing/expected_failure.hpp"

// Matchers for Catch2 version 2. When one does not hold, Catch prints the check's report.
//
//   CHECK_THAT(check(program, options), Passes());
//   CHECK_THAT(check(program, options), FailsWith("COLL_MISSING").on({2}).at("my_sync.hpp"));
namespace shardsim {
inline namespace catch2_matchers {

class Passes final : public Catch::MatcherBase<CheckReport> {
 public:
  [[nodiscard]] bool match(const CheckReport& report) const override { return report.passed(); }

 protected:
  [[nodiscard]] std::string describe() const override { return "expected: it passes"; }
};

class FailsWith final : public Catch::MatcherBase<CheckReport>, public ExpectedFailure<FailsWith> {
 public:
  using ExpectedFailure::ExpectedFailure;
  [[nodiscard]] bool match(const CheckReport& report) const override { return is(report); }

 protected:
  [[nodiscard]] std::string describe() const override { return "expected: it " + text(); }
};

}  // namespace catch2_matchers
}  // namespace shardsim

namespace Catch {

template <>
struct StringMaker<shardsim::CheckReport> {
  static std::string convert(const shardsim::CheckReport& report) { return report.to_text(); }
};

}  // namespace Catch
