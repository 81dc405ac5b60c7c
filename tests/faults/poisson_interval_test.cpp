#include <cmath>

#include <catch2/catch.hpp>

#include "sim/run/whole_training.hpp"

// Published limits: Garwood 1936; any table of exact 90 % intervals of a Poisson mean.
namespace shardsim::test {

TEST_CASE("exact intervals are those of the tables") {
  CHECK(poisson_interval(1).low == Approx(0.0513).margin(5e-5));
  CHECK(poisson_interval(1).high == Approx(4.744).margin(5e-4));
  CHECK(poisson_interval(5).low == Approx(1.970).margin(5e-4));
  CHECK(poisson_interval(5).high == Approx(10.513).margin(5e-4));
  CHECK(poisson_interval(10).low == Approx(5.425).margin(5e-4));
  CHECK(poisson_interval(10).high == Approx(16.962).margin(5e-4));
}

TEST_CASE("where the approximation takes over it is within a thousandth") {
  const PoissonInterval exact = poisson_interval(100);
  const PoissonInterval near = byar_interval(100.0);
  CHECK(std::fabs(near.low / exact.low - 1.0) < 1e-3);
  CHECK(std::fabs(near.high / exact.high - 1.0) < 1e-3);
  CHECK(poisson_interval(101).low > exact.low);
  CHECK(poisson_interval(101).high > exact.high);
}

TEST_CASE("an interval holds its count, and narrows as counts grow") {
  double width = 100.0;
  for (const std::int64_t count : {1, 3, 10, 30, 100, 419, 10'000}) {
    const PoissonInterval interval = poisson_interval(count);
    const auto seen = static_cast<double>(count);
    CHECK(interval.low < seen);
    CHECK(interval.high > seen);
    CHECK((interval.high - interval.low) / seen < width);
    width = (interval.high - interval.low) / seen;
  }
}

}  // namespace shardsim::test
