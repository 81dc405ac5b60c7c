#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/accuracy/validated_table.hpp"

// Figures computed by hand. Powers of two make every ratio exact.
namespace shardsim::test {

TEST_CASE("mean, median, percentile, bias and worst row of errors known by hand") {
  // Errors: +1/4, -1/2, 0, +3/4. Absolute and sorted: 0, 1/4, 1/2, 3/4.
  const std::vector<PredictedAndMeasured> rows = {{5, 4}, {2, 4}, {8, 8}, {28, 16}};
  const ErrorStatistics figures = error_statistics(rows);
  CHECK(figures.rows == 4);
  CHECK(figures.mean_absolute == 0.375);
  CHECK(figures.median_absolute == 0.375);  // Between 1/4 and 1/2.
  // At place 0.9 x 3 = 2.7: 1/2 + 0.7 x 1/4. Binary 0.9 is inexact, hence one rounding apart.
  CHECK(std::abs(figures.percentile_90_absolute - 0.675) < 1e-15);
  CHECK(figures.bias == 0.125);
  CHECK(figures.worst == 3);
}

TEST_CASE("one row is its own mean, median and percentile, and has no rank correlation") {
  const ErrorStatistics figures = error_statistics({{3, 4}});
  CHECK(figures.mean_absolute == 0.25);
  CHECK(figures.median_absolute == 0.25);
  CHECK(figures.percentile_90_absolute == 0.25);
  CHECK(figures.bias == -0.25);
  CHECK(figures.worst == 0);
  CHECK_FALSE(figures.rank_correlation.has_value());
}

TEST_CASE("of equally wrong rows the first is the worst") {
  CHECK(error_statistics({{4, 4}, {6, 4}, {2, 4}}).worst == 1);
}

TEST_CASE("quantiles are at the ends, in the middle and between neighbours") {
  const std::vector<double> values = {8, 0, 4, 2, 6};
  CHECK(quantile(values, 0.0) == 0);
  CHECK(quantile(values, 0.5) == 4);
  CHECK(quantile(values, 1.0) == 8);
  CHECK(quantile(values, 0.375) == 3);
}

TEST_CASE("the rank correlation counts the order only") {
  CHECK(rank_correlation({{1, 10}, {2, 200}, {3, 3000}}) == 1.0);
  CHECK(rank_correlation({{3, 10}, {2, 200}, {1, 3000}}) == -1.0);
  // Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 x 4 / (5 x 24) = 0.8.
  CHECK(*rank_correlation({{1, 2}, {2, 1}, {3, 4}, {4, 3}, {5, 5}}) == 0.8);
}

TEST_CASE("equal values share the mean of their ranks") {
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
  const std::vector<PredictedAndMeasured> rows = {{1, 1}, {5, 2}, {5, 3}, {9, 4}};
  // One division and one root away from the exact value.
  CHECK(std::abs(*rank_correlation(rows) - 4.5 / std::sqrt(4.5 * 5.0)) < 1e-15);
  CHECK_FALSE(rank_correlation({{7, 1}, {7, 2}}).has_value());
  CHECK_FALSE(rank_correlation({{1, 7}, {2, 7}}).has_value());
}

}  // namespace shardsim::test
