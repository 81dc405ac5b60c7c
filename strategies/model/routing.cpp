#include "strategies/model/routing.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>

#include "sim/kernel/error.hpp"

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

void require_of_experts(bool holds, const char* name, const std::string& value,
                        const std::string& fix) {
  if (!holds) {
    throw UsageError("E0644", "experts: " + std::string(name) + " is " + value, fix);
  }
}

void require_popularity(const MoeOptions& options, std::int64_t layers_with_experts) {
  const auto lists = static_cast<std::int64_t>(options.popularity.size());
  require_of_experts(lists == 1 || lists == layers_with_experts, "popularity",
                     std::to_string(lists) + " lists",
                     "give one for all layers, or one for each layer with experts");
  for (const std::vector<double>& weights : options.popularity) {
    require_of_experts(
        static_cast<std::int64_t>(weights.size()) == options.num_experts, "popularity",
        "a list of " + std::to_string(weights.size()),
        "give one weight for each of " + std::to_string(options.num_experts) + " experts");
    double sum = 0.0;
    for (const double weight : weights) {
      require_of_experts(std::isfinite(weight) && weight >= 0.0, "popularity",
                         std::to_string(weight), "give weights of 0 or more");
      sum += weight;
    }
    require_of_experts(std::isfinite(sum) && sum > 0.0, "popularity", "0 for all experts",
                       "give some expert a weight above 0");
  }
}

void require_router(const MoeOptions& options) {
  const RouterOptions& router = options.router;
  const auto text = [](auto number) { return std::to_string(number); };
  require_of_experts(std::isfinite(router.scaling_factor) && router.scaling_factor > 0.0,
                     "scaling_factor", text(router.scaling_factor), "use 1 for none");
  require_of_experts(router.num_groups >= 1 && options.num_experts % router.num_groups == 0,
                     "num_groups", text(router.num_groups),
                     "choose a divisor of " + text(options.num_experts) + " experts, 1 for none");
  const std::int64_t size = options.num_experts / router.num_groups;
  const std::int64_t chosen = router.group_topk;
  const std::int64_t k = options.experts_per_token;
  require_of_experts(
      chosen >= 1 && chosen <= router.num_groups && k % chosen == 0 && k / chosen <= size,
      "group_topk", text(chosen),
      "choose a divisor of " + text(k) + " experts per token, at most " + text(router.num_groups) +
          ", whose groups have that many experts");
  require_of_experts(std::isfinite(router.bias_update_rate) && router.bias_update_rate >= 0.0,
                     "bias_update_rate", text(router.bias_update_rate), "use 0 for no bias");
  require_of_experts(!router.weighs_input || k == 1, "weighs_input", "true",
                     "give a token one expert: weights on inputs do not add up");
  require_of_experts(std::isfinite(router.z_loss_coefficient) && router.z_loss_coefficient >= 0.0,
                     "z_loss_coefficient", text(router.z_loss_coefficient),
                     "use 0 for no such loss");
}

}  // namespace

const RoutingRow& routing_row(RoutingKind kind) {
  return kRoutingRows.at(static_cast<std::size_t>(kind));
}

std::span<const RoutingRow> routing_rows() { return kRoutingRows; }

std::span<const char* const> routing_names() { return kRoutingRowNames; }

std::string routings_that(RoutingTrait has, std::string_view before_last, std::string_view quote) {
  return names_that(kRoutingRows, has, before_last, quote);
}

// A product with the factor may come out above what it is in decimals, and be rounded up to a row
// more. A quotient of whole numbers is rounded once, to the very number that the same fraction,
// written in decimals, is read as: so it is quotients that are compared.
std::int64_t capacity(const MoeOptions& options, std::int64_t tokens) {
  const auto slots = static_cast<double>(tokens * options.experts_per_token);
  const auto suffices = [&](std::int64_t rows) {
    return static_cast<double>(rows * options.num_experts) / slots >= options.capacity_factor;
  };
  if (!suffices(tokens)) return tokens;
  const double product = slots / static_cast<double>(options.num_experts) * options.capacity_factor;
  auto rows = static_cast<std::int64_t>(std::ceil(product));
  while (rows > 0 && suffices(rows - 1)) --rows;
  while (!suffices(rows)) ++rows;
  return rows;
}

void validate(const MoeOptions& options, std::int64_t layers_with_experts) {
  const auto text = [](auto number) { return std::to_string(number); };
  require_of_experts(options.num_experts >= 0, "num_experts", text(options.num_experts),
                     "use 0 for none");
  require_of_experts(options.expert_parallel >= 1, "expert_parallel", text(options.expert_parallel),
                     "use 1 for none");
  if (options.num_experts == 0) {
    require_of_experts(options.expert_parallel == 1, "num_experts", "0",
                       "give the model experts, or set ep to 1");
    return;
  }
  require_of_experts(
      options.num_experts % options.expert_parallel == 0, "num_experts", text(options.num_experts),
      "choose ep (" + text(options.expert_parallel) + ") so that it divides num_experts");
  require_of_experts(
      options.experts_per_token >= 1 && options.experts_per_token <= options.num_experts,
      "experts_per_token", text(options.experts_per_token),
      "let a token pass 1 to " + text(options.num_experts) + " experts");
  const int slices = options.expert_tensor_parallel;
  require_of_experts(slices >= 1, "expert_tensor_parallel", text(slices), "use 1 for none");
  require_of_experts(options.ffn_hidden_size % slices == 0, "ffn_hidden_size",
                     text(options.ffn_hidden_size),
                     "choose etp (" + text(slices) + ") so that it divides an expert's elements");
  require_of_experts(slices == 1 || !options.has_expert_bias, "has_expert_bias", "true",
                     "each slice would add the output's bias: set etp to 1");
  require_of_experts(options.ffn_hidden_size >= 1, "ffn_hidden_size", text(options.ffn_hidden_size),
                     "give 1 or more");
  require_of_experts(options.latent_size >= 0, "latent_size", text(options.latent_size),
                     "use 0 for none");
  require_of_experts(options.shared_ffn_hidden_size >= 0, "shared_ffn_hidden_size",
                     text(options.shared_ffn_hidden_size), "use 0 for none");
  require_of_experts(!options.has_shared_gate || options.has_shared_experts(), "has_shared_gate",
                     "true", "give the shared expert a width, or switch its gate off");
  require_router(options);
  require_of_experts(options.first_dense_layers >= 0, "first_dense_layers",
                     text(options.first_dense_layers), "use 0 for none");
  require_of_experts(layers_with_experts >= 1, "layers with experts", text(layers_with_experts),
                     "leave at least one layer with experts");
  require_of_experts(std::isfinite(options.capacity_factor) && options.capacity_factor >= 0.0,
                     "capacity_factor", text(options.capacity_factor), "use 0 to drop no token");
  require_of_experts(std::isfinite(options.auxiliary_loss_coefficient) &&
                         options.auxiliary_loss_coefficient >= 0.0,
                     "auxiliary_loss_coefficient", text(options.auxiliary_loss_coefficient),
                     "use 0 for no such loss");
  require_of_experts(options.skew >= 0.0 && options.skew <= 16.0, "skew", text(options.skew),
                     "use an exponent from 0 (all alike) to 16");
  if (routing_row(options.routing).reads_popularity)
    require_popularity(options, layers_with_experts);
}

}  // namespace shardsim
