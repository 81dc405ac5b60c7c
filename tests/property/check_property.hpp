#pragma once

#include <cstdlib>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "tests/sample.hpp"

// Random cases in a fixed number and from a fixed seed, so that two runs of the suite test the
// same; with SHARDSIM_LONG=1 twenty times as many, from the seed in SHARDSIM_SEED if it is set.
namespace shardsim::test {

inline std::uint64_t property_seed() {
  const char* text = std::getenv("SHARDSIM_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261121;
}

/// So many cases in any run. Fails the Catch test with the smallest failing case, its seed and how
/// to run it again.
template <class Testable>
void check_cases(int cases, Testable&& testable) {
  rc::detail::TestParams params;
  params.seed = property_seed();
  params.maxSuccess = cases;
  const rc::detail::TestResult result = rc::detail::checkTestable(
      std::forward<Testable>(testable), rc::detail::TestMetadata(), params);
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  INFO("seed " << params.seed << ": " << message.str());
  CHECK(result.template is<rc::detail::SuccessResult>());
}

/// The same, and twenty times as many cases in a long run.
template <class Testable>
void check_property(int cases, Testable&& testable) {
  check_cases(long_run() ? 20 * cases : cases, std::forward<Testable>(testable));
}

}  // namespace shardsim::test
