#include "strategies/model/moe_options.hpp"

#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

void require_of_experts(bool holds, const char* name, const std::string& value,
                        const std::string& fix) {
  if (holds) return;
  throw UsageError("E0644", "experts: " + std::string(name) + " is " + value, fix);
}

void require_popularity(const MoeOptions& options, std::int64_t num_layers) {
  const auto lists = static_cast<std::int64_t>(options.popularity.size());
  require_of_experts(lists == 1 || lists == num_layers - options.first_dense_layers, "popularity",
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

}  // namespace

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

void validate(const MoeOptions& options, std::int64_t num_layers) {
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
  require_of_experts(options.ffn_hidden_size >= 1, "ffn_hidden_size", text(options.ffn_hidden_size),
                     "give 1 or more");
  require_of_experts(options.num_shared_experts >= 0, "num_shared_experts",
                     text(options.num_shared_experts), "use 0 for none");
  require_of_experts(options.first_dense_layers >= 0 && options.first_dense_layers < num_layers,
                     "first_dense_layers", text(options.first_dense_layers),
                     "leave at least one of " + text(num_layers) + " layers with experts");
  require_of_experts(std::isfinite(options.capacity_factor) && options.capacity_factor >= 0.0,
                     "capacity_factor", text(options.capacity_factor), "use 0 to drop no token");
  require_of_experts(std::isfinite(options.auxiliary_loss_coefficient) &&
                         options.auxiliary_loss_coefficient >= 0.0,
                     "auxiliary_loss_coefficient", text(options.auxiliary_loss_coefficient),
                     "use 0 for no such loss");
  require_of_experts(options.skew >= 0.0 && options.skew <= 16.0, "skew", text(options.skew),
                     "use an exponent from 0 (all alike) to 16");
  if (routing_row(options.routing).reads_popularity) require_popularity(options, num_layers);
}

}  // namespace shardsim
