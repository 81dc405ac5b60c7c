#include "strategies/model/routing.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include "strategies/model/moe_options.hpp"
#include "strategies/named_rows.hpp"

namespace shardsim {

namespace {

// base^exponent from products and square roots alone, which round alike everywhere: what is sent
// and so what it costs depends on it. The exponent counts in steps of 2^-20.
double real_power(double base, double exponent) {
  constexpr int kDigits = 20;
  const double whole = std::floor(exponent);
  double result = 1.0;
  for (double i = 0.0; i < whole; i += 1.0) result *= base;
  double rest = exponent - whole;
  double root = base;
  for (int digit = 0; digit < kDigits; ++digit) {
    root = std::sqrt(root);
    rest *= 2.0;
    if (rest < 1.0) continue;
    rest -= 1.0;
    result *= root;
  }
  return result;
}

ExpertWeights uniform_weights(const MoeOptions& options) {
  return {std::vector<double>(static_cast<std::size_t>(options.num_experts), 1.0)};
}

ExpertWeights skewed_weights(const MoeOptions& options) {
  std::vector<double> weights;
  for (std::int64_t expert = 0; expert < options.num_experts; ++expert) {
    weights.push_back(1.0 / real_power(static_cast<double>(expert + 1), options.skew));
  }
  return {weights};
}

ExpertWeights listed_weights(const MoeOptions& options) { return options.popularity; }

// Each row names all members: GCC 12 loses defaults of members in nested constant arrays.
constexpr std::array kRoutingRows = {
    RoutingRow{.kind = RoutingKind::learned,
               .name = "learned",
               .meaning = "as the router says; plans without a record of decisions assume equal "
                          "shares",
               .shares = {},
               .reads_skew = false,
               .reads_popularity = false,
               .moves_on = false,
               .weights = nullptr},
    RoutingRow{.kind = RoutingKind::uniform,
               .name = "uniform",
               .meaning = "equal shares",
               .shares = "every expert gets the same number of slots",
               .reads_skew = false,
               .reads_popularity = false,
               .moves_on = true,
               .weights = uniform_weights},
    RoutingRow{.kind = RoutingKind::skewed,
               .name = "skewed",
               .meaning = "Zipf's law",
               .shares = "shares follow Zipf's law",
               .reads_skew = true,
               .reads_popularity = false,
               .moves_on = true,
               .weights = skewed_weights},
    RoutingRow{.kind = RoutingKind::listed,
               .name = "file",
               .meaning = "listed shares",
               .shares = "shares are those of",
               .reads_skew = false,
               .reads_popularity = true,
               .moves_on = false,
               .weights = listed_weights},
};
static_assert(stand_in_order(kRoutingRows, &RoutingRow::kind));

constexpr auto kRoutingRowNames = names_in_order(kRoutingRows);

}  // namespace

const RoutingRow& routing_row(RoutingKind kind) {
  return kRoutingRows.at(static_cast<std::size_t>(kind));
}

std::span<const RoutingRow> routing_rows() { return kRoutingRows; }

std::span<const char* const> routing_names() { return kRoutingRowNames; }

std::string routings_that(RoutingTrait has, std::string_view before_last, std::string_view quote) {
  return names_that(kRoutingRows, has, before_last, quote);
}

}  // namespace shardsim
