#include <algorithm>
#include <utility>

#include "sim/kernel/error.hpp"

#include "backends/graph_scope.hpp"

#include "strategies/model/expert_layer.hpp"
#include "strategies/model/router_bias.hpp"

// The router's part of a layer of experts: its parameters, its biases, its losses, and the count of
// what it chose.
namespace shardsim {

namespace {

std::int64_t first_token_of(const Pass& pass, std::int64_t rows) {
  return pass.parallel.tensor == nullptr ? 0 : pass.parallel.tensor->first_token(rows);
}

// The tokens that a mean of the router's losses is over.
double balanced_tokens(const Pass& pass, std::int64_t rows, std::int64_t seq_len) {
  const std::int64_t samples = pass.batch->routing.balanced_samples;
  return static_cast<double>(samples > 0 ? samples * seq_len : rows);
}

}  // namespace

void ExpertLayer::add_router(ParameterTable& table, const std::string& name) const {
  const Init init{Init::Kind::bell, kInitScale};
  table.never_quantize(table.add(name, {moe_.num_experts, hidden_size_}, init));
  if (!moe_.router.has_logit_bias) return;
  table.add(name + ".bias", {moe_.num_experts}, {Init::Kind::zeros, 0.0});
}

// On shapes alone a model may run without.
Tensor ExpertLayer::choice_bias(const Pass& pass) const {
  Tensor bias;
  if (pass.parallel.router_biases != nullptr) {
    bias = pass.parallel.router_biases->bias_of(pass.block);
  }
  if (bias.defined()) return bias;
  pass.runtime.off_the_clock([&] {
    throw Error(ExitCode::internal, "E7026",
                "experts of block " + std::to_string(pass.block) +
                    " are chosen with biases, but the rank has none");
  });
  return bias;
}

// One after the other: fetching may communicate.
RouterWeights ExpertLayer::router_weights(const Pass& pass, const Places& places) const {
  RouterWeights weights;
  weights.weight = pass.weight(places.router);
  if (moe_.router.has_logit_bias) weights.logit_bias = pass.weight(places.router + 1);
  if (moe_.router.has_choice_bias()) weights.choice_bias = choice_bias(pass);
  return weights;
}

void ExpertLayer::route(const Pass& pass, const Places& places, const Tensor& x,
                        std::span<Tensor> kept) const {
  const std::int64_t rows = num_rows(x);
  RouterOutput routed =
      router_forward(pass.runtime, x, router_weights(pass, places),
                     {moe_.router, moe_.experts_per_token}, declared_choice(pass, rows));
  kept[scores] = std::move(routed.scores);
  kept[chosen] = std::move(routed.chosen);
  kept[gates] = std::move(routed.gates);
  kept[z_slope] = std::move(routed.z_slope);
}

Tensor ExpertLayer::backward_router(const Pass& pass, const Places& places,
                                    const Tensor& gate_gradient, const Tensor& x, Tensor dx,
                                    std::span<Tensor> kept) const {
  const Runtime::Graph graph(pass.runtime, captures_router_);
  const std::int64_t rows = num_rows(x);
  const RouterLosses losses{.balance = balance_slope(pass, kept[loads], rows),
                            .z_factor = z_factor(pass, rows)};
  const Tensor logits =
      router_backward(pass.runtime, {kept[scores], kept[chosen], kept[gates], kept[z_slope]},
                      moe_.router, gate_gradient, losses);
  for (Tensor& tensor : kept) tensor = {};
  if (moe_.router.has_logit_bias) finish_bias(pass, places.router + 1, logits);
  finish_linear(pass, places.router, logits, x);
  return linear_backward_input(pass.runtime, logits, pass.weight(places.router), std::move(dx));
}

// L = coefficient / T sum over tokens of (lse z)^2 per group of T tokens.
double ExpertLayer::z_factor(const Pass& pass, std::int64_t rows) const {
  if (!moe_.router.has_z_loss()) return 0.0;
  return pass.batch->routing.balance_scale * moe_.router.z_loss_coefficient /
         balanced_tokens(pass, rows, seq_len_);
}

// L = coefficient E sum_i f_i P_i per group of T tokens, f_i the share of the T k slots that expert
// i got, P_i the mean of its probability: dL / dp = coefficient E f_i / T. f has no gradient.
BalanceSlope ExpertLayer::balance_slope(const Pass& pass, const Tensor& counted,
                                        std::int64_t rows) const {
  if (!moe_.balances_load()) return {};
  const RoutingGroups& groups = pass.batch->routing;
  const double tokens = balanced_tokens(pass, rows, seq_len_);
  const double factor = groups.balance_scale * moe_.auxiliary_loss_coefficient *
                        static_cast<double>(moe_.num_experts) /
                        (tokens * static_cast<double>(moe_.experts_per_token) * tokens);
  const std::int64_t per_group = rows / counted.shape()[0];
  const std::int64_t experts = moe_.num_experts;
  return [=](std::int64_t row, std::int64_t expert) {
    return factor * counted.get(row / per_group * experts + expert);
  };
}

DeclaredChoice ExpertLayer::declared_choice(const Pass& pass, std::int64_t rows) const {
  if (!planner_.declares()) return {};
  const std::int64_t first = first_token_of(pass, rows);
  return [this, first, layer = layer_of(pass), part = pass.batch->part](std::int64_t row,
                                                                        std::int64_t slot) {
    return planner_.routing().expert_of(layer, position_of_row(row, first, part, seq_len_), slot);
  };
}

void ExpertLayer::tally(const Pass& pass, const ExpertCounts& demand, std::int64_t rows) const {
  pass.runtime.tally(kExpertLoad, layer_of(pass) * moe_.num_experts, demand.sent);
  if (!moe_.drops_tokens()) return;
  const std::int64_t room = capacity(moe_, rows);
  std::int64_t dropped = 0;
  for (const std::int64_t wanted : demand.sent) dropped += std::max<std::int64_t>(wanted - room, 0);
  pass.runtime.tally(kDroppedTokens, 0, {&dropped, 1});
}

}  // namespace shardsim
