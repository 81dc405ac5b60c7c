#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "tests/sample.hpp"

// The harness once called one in forty correct sums of one element too coarse for its precision. It
// judged the noise by the sum, which is small where terms cancel.
namespace shardsim::test {

namespace {

constexpr std::int64_t kTerms = 12;
constexpr std::uint32_t kParts = 3;

// Sums terms of all ranks that nearly cancel; a wrong program multiplies the sum by `factor`.
Program sum_of(std::int64_t elements, double factor, bool by_messages) {
  return [=](RankContext& context) {
    const auto term = [&](std::int64_t i, std::int64_t element) {
      const double other = context.draw("term", element * kTerms + i - i % 2);
      const double own = context.draw("rest", element * kTerms + i);
      return i % 2 == 0 ? other : -other + 0.01 * own;
    };
    const Tensor sum = context.tensor(elements, [&](std::int64_t element) {
      double mine = 0.0;
      for (std::int64_t i = context.rank(); i < kTerms; i += context.size()) {
        mine += term(i, element);
      }
      return mine;
    });
    if (!by_messages) {
      context.world().all_reduce(sum, ReduceOp::sum).wait();
    } else if (context.size() > 1) {
      const Tensor before = context.tensor(elements);
      if (context.rank() > 0) {
        context.world().recv(before, context.rank() - 1).wait();
        for (std::int64_t i = 0; i < elements; ++i) sum.set(i, sum.get(i) + before.get(i));
      }
      if (context.rank() + 1 < context.size()) {
        context.world().send(sum, context.rank() + 1).wait();
      }
      context.world().broadcast(sum, context.size() - 1).wait();
    }
    for (std::int64_t i = 0; i < elements && context.size() > 1; ++i) {
      sum.set(i, factor * sum.get(i));
    }
    context.show(Shown::gradient, "w", sum);
  };
}

CheckReport verdict(const Program& program, DType precision, std::uint64_t seed) {
  CheckOptions options{.ranks = {4}, .steps = 1, .seeds = {seed}, .precision = precision};
  options.explore.mode = ExploreMode::none;
  return check(program, options);
}

}  // namespace

TEST_CASE("sums whose terms cancel are right below fp64, reduced or passed on along a chain") {
  for (const DType precision : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const bool by_messages : {false, true}) {
      for (const std::int64_t elements : {1, 2, 4, 16, 256}) {
        const Program program = sum_of(elements, 1.0, by_messages);
        for (std::uint64_t seed = 1; seed <= 60; ++seed) {
          if (!in_sample(std::string(name_of(precision)) + std::to_string(elements * 100 + seed),
                         kParts)) {
            continue;
          }
          const CheckReport report = verdict(program, precision, seed);
          INFO(name_of(precision) << ", " << elements << " elements, messages " << by_messages
                                  << ", seed " << seed << ": " << report.to_text());
          REQUIRE(report.passed());
        }
      }
    }
  }
}

TEST_CASE("a factor of two in a sum whose terms cancel is found, where its format can show it") {
  // In bf16 and fp16 the sum is as small as the loss from rounding its terms.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    CHECK_FALSE(verdict(sum_of(16, 2.0, false), DType::fp32, seed).passed());
  }
}

}  // namespace shardsim::test
