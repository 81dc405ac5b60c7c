#include "strategies/model/router.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/expert_choice.hpp"
#include "strategies/model/gated_rows.hpp"

#include "tests/strategies/expert_layer_fixture.hpp"

// Routers against their formulas, and layers with each of them against difference quotients.
namespace shardsim::test {
namespace {

struct RouterCase {
  const char* name;
  RouterOptions options;
};

std::vector<RouterCase> routers() {
  return {
      {"softmax of the chosen", {}},
      {"softmax of all", {.normalised = false}},
      {"softmax, scaled", {.scaling_factor = 2.5}},
      {"softmax of all, scaled", {.normalised = false, .scaling_factor = 16.0}},
      {"softmax with a bias in the choice", {.bias_update_rate = 0.25}},
      {"sigmoid", {.score = RouterScore::sigmoid, .scaling_factor = 2.5, .bias_update_rate = 0.25}},
      {"sigmoid without bias", {.score = RouterScore::sigmoid}},
      {"sigmoid alone", {.score = RouterScore::sigmoid, .normalised = false}},
      {"groups", {.score = RouterScore::sigmoid, .num_groups = 3, .group_topk = 2}},
      {"groups of softmax",
       {.normalised = false, .num_groups = 2, .group_score = GroupScore::maximum}},
      {"biased logits", {.has_logit_bias = true}},
      {"losses", {.score = RouterScore::sigmoid, .z_loss_coefficient = 0.3}},
      {"losses of softmax", {.z_loss_coefficient = 0.3}},
  };
}

MoeOptions with_router(const RouterOptions& router, std::int64_t k = 2) {
  MoeOptions moe = some_experts(RoutingKind::learned, k);
  moe.num_experts = 6;
  moe.router = router;
  return moe;
}

double logistic(double z) { return 1.0 / (1.0 + std::exp(-z)); }

// A router's input whose logits are these, and what it makes of them.
RouterOutput route(const RouterOptions& options, const std::vector<double>& logits, std::int64_t k,
                   const Tensor& choice_bias = {}) {
  LocalRuntime runtime;
  const auto experts = static_cast<std::int64_t>(logits.size());
  const Tensor x = tensor_of({1, 1}, {1.0});
  const RouterWeights weights{tensor_of({experts, 1}, logits), {}, choice_bias};
  return router_forward(runtime, x, weights, {options, k}, {});
}

std::vector<int> chosen_of(const RouterOutput& routed) {
  std::vector<int> chosen;
  for (std::int64_t i = 0; i < routed.chosen.numel(); ++i) {
    chosen.push_back(static_cast<int>(routed.chosen.get(i)));
  }
  return chosen;
}

using Experts = std::vector<int>;

// By definition: each way to choose groups is tried, and each expert outside of the best way is
// left out, not counted as 0.
std::set<int> best_by_trial(const RouterOptions& options, const std::vector<double>& scores,
                            int k) {
  const auto size = static_cast<int>(scores.size()) / static_cast<int>(options.num_groups);
  double best = -INFINITY;
  std::vector<bool> best_groups;
  std::vector<bool> taken(static_cast<std::size_t>(options.num_groups), false);
  std::fill_n(taken.begin(), options.group_topk, true);
  do {
    double sum = 0.0;
    for (int group = 0; group < static_cast<int>(options.num_groups); ++group) {
      if (!taken[static_cast<std::size_t>(group)]) continue;
      std::vector<double> of_group(scores.begin() + group * size,
                                   scores.begin() + (group + 1) * size);
      std::sort(of_group.rbegin(), of_group.rend());
      const int summed =
          options.group_score == GroupScore::maximum ? 1 : k / static_cast<int>(options.group_topk);
      sum += std::accumulate(of_group.begin(), of_group.begin() + summed, 0.0);
    }
    if (sum <= best) continue;
    best = sum;
    best_groups = taken;
  } while (std::prev_permutation(taken.begin(), taken.end()));
  std::vector<int> candidates;
  for (int expert = 0; expert < static_cast<int>(scores.size()); ++expert) {
    if (best_groups[static_cast<std::size_t>(expert / size)]) candidates.push_back(expert);
  }
  std::sort(candidates.begin(), candidates.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  return {candidates.begin(), candidates.begin() + k};
}

}  // namespace

TEST_CASE("M9: weights of experts are those of their router's formula") {
  const std::vector<double> logits = {-0.5, 2.0, 0.25, -3.0, 1.0};
  const Tensor bias = tensor_of({5}, {0.0, -4.0, 0.0, 3.0, 0.0});
  double all = 0.0;
  for (const double z : logits) all += std::exp(z);
  const auto weight = [&](const RouterOutput& routed, std::int64_t slot) {
    return routed.gates.get(slot);
  };
  const RouterOutput softmax = route({.scaling_factor = 3.0}, logits, 2);
  CHECK(chosen_of(softmax) == Experts{1, 4});
  CHECK(weight(softmax, 0) == Approx(3.0 / (1.0 + std::exp(-1.0))).epsilon(1e-14));
  CHECK(weight(softmax, 1) == Approx(3.0 / (1.0 + std::exp(1.0))).epsilon(1e-14));
  const RouterOutput whole = route({.normalised = false, .scaling_factor = 3.0}, logits, 2);
  CHECK(chosen_of(whole) == Experts{1, 4});
  CHECK(weight(whole, 0) == Approx(3.0 * std::exp(2.0) / all).epsilon(1e-14));
  const RouterOptions sigmoid{
      .score = RouterScore::sigmoid, .scaling_factor = 2.5, .bias_update_rate = 1e-3};
  // 3 gets 3.05, 1 gets -3.1: the bias chooses, and is in no weight.
  const RouterOutput biased = route(sigmoid, logits, 2, bias);
  CHECK(chosen_of(biased) == Experts{3, 4});
  const double sum = logistic(-3.0) + logistic(1.0);
  CHECK(weight(biased, 0) == Approx(2.5 * logistic(-3.0) / sum).epsilon(1e-14));
  CHECK(weight(biased, 1) == Approx(2.5 * logistic(1.0) / sum).epsilon(1e-14));
  const RouterOutput ernie = route({.bias_update_rate = 1e-3}, logits, 2, bias);
  CHECK(chosen_of(ernie) == Experts{3, 4});
  CHECK(weight(ernie, 0) == Approx(1.0 / (1.0 + std::exp(4.0))).epsilon(1e-14));
  const RouterOutput alone = route({.score = RouterScore::sigmoid, .normalised = false}, logits, 1);
  CHECK(weight(alone, 0) == Approx(logistic(2.0)).epsilon(1e-14));
}

TEST_CASE("M9: ties go to the first expert, and where all are chosen, all are") {
  for (const RouterCase& each : routers()) {
    if (each.options.has_groups()) continue;
    CAPTURE(each.name);
    CHECK(chosen_of(route(each.options, {1.0, 2.0, 2.0, 1.0, 2.0}, 2)) == Experts{1, 2});
    CHECK(chosen_of(route(each.options, {-700, -800, -800}, 3)) == Experts{0, 1, 2});
    const RouterOutput all = route(each.options, {-1.0, -0.5, -2.0}, 3);
    CHECK(chosen_of(all) == Experts{1, 0, 2});
    double sum = 0.0;
    for (std::int64_t slot = 0; slot < 3; ++slot) sum += all.gates.get(slot);
    const bool adds_up = each.options.normalised || each.options.score == RouterScore::softmax;
    if (adds_up) CHECK(sum == Approx(each.options.scaling_factor).epsilon(1e-13));
  }
  // Groups of two with equal scores: the first group, whose best expert is the second.
  const RouterOptions groups{.num_groups = 2, .group_topk = 1};
  CHECK(choose_experts(groups, {1.0, 3.0, 3.0, 1.0}, 1) == Experts{1});
  CHECK(choose_experts(groups, {1.0, 3.0, 2.0, 2.0}, 2) == Experts{1, 0});
}

// Scores with a bias may be negative: an expert outside of the chosen groups must not count as 0.
TEST_CASE("M9: with groups a token goes to the best experts of the best groups") {
  const RandomStream random(5, "groups");
  std::uint64_t number = 0;
  for (const double offset : {0.0, -8.0, 3.0}) {
    for (const GroupScore score : {GroupScore::sum, GroupScore::maximum}) {
      for (const std::int64_t chosen : {1, 2}) {
        const RouterOptions options{.num_groups = 4, .group_topk = chosen, .group_score = score};
        for (int draw = 0; draw < 50; ++draw) {
          std::vector<double> scores(12);
          for (double& value : scores) value = offset + random.bell(number++);
          const std::vector<int> found = choose_experts(options, scores, 2);
          CHECK(std::set<int>(found.begin(), found.end()) == best_by_trial(options, scores, 2));
        }
      }
    }
  }
}

// The step is 1e-4, as for Mixtral's router. Experts of groups are compared by scores whose order a
// step of this size does not change.
TEST_CASE("M9: gradients of each router's layer equal difference quotients") {
  for (const RouterCase& each : routers()) {
    for (const double factor : {0.0, 0.6}) {
      MoeOptions moe = with_router(each.options);
      moe.capacity_factor = factor;
      moe.has_expert_bias = each.options.has_logit_bias;
      LayerFixture f(moe);
      if (!f.biases.empty()) {
        for (std::int64_t i = 0; i < 6; ++i)
          f.biases.bias(0).set(i, 0.3 * std::sin(2.0 * double(i)));
      }
      f.batch.routing.balance_scale = 1.0;
      const Tensor dy = random_tensor("dy", f.x.shape());
      const std::int64_t rows = 2 * f.options.seq_len;
      (void)f.forward();
      const Tensor dx = f.backward(dy);
      const auto value = [&] {
        double loss = dot(f.forward(), dy);
        if (!each.options.has_z_loss()) return loss;
        for (std::int64_t token = 0; token < rows; ++token) {
          double sum = 0.0;
          for (const double z : logits_of_token(f, token)) sum += std::exp(z);
          loss += each.options.z_loss_coefficient * std::log(sum) * std::log(sum) / double(rows);
        }
        return loss;
      };
      CAPTURE(each.name, factor);
      CHECK(max_difference(dx, numeric_gradient(f.x, value, 1e-4)) < 1e-6);
      const int stride = moe.has_expert_bias ? 2 : 1;
      for (int k = f.places.router; k < f.places.experts + 3 * stride; ++k) {
        const Tensor weight = f.parameters.weight(LayerFixture::kBlock + k);
        const Tensor gradient = f.parameters.gradient(LayerFixture::kBlock + k);
        CAPTURE(k);
        CHECK(max_difference(gradient.flat(), numeric_gradient(weight, value, 1e-4).flat()) < 1e-6);
        CHECK(dot(gradient, gradient) > 1e-6);  // Else the comparison would say nothing.
      }
    }
  }
}

// The definition has p = s / sum of s, and shares of slots are held.
TEST_CASE("the auxiliary loss of sigmoid scores is that of their shares") {
  MoeOptions moe = with_router({.score = RouterScore::sigmoid});
  moe.auxiliary_loss_coefficient = 0.7;
  LayerFixture f(moe);
  f.batch.routing.balance_scale = 1.0;
  (void)f.forward();
  const std::int64_t rows = 2 * f.options.seq_len;
  std::vector<double> share(6, 0.0);
  for (std::int64_t i = 0; i < rows * 2; ++i) {
    const auto expert = static_cast<std::size_t>(f.kept[ExpertLayer::chosen].get(i));
    share[expert] += 1.0 / double(2 * rows);
  }
  const auto loss = [&] {
    double sum = 0.0;
    for (std::int64_t token = 0; token < rows; ++token) {
      const std::vector<double> logits = logits_of_token(f, token);
      double total = 0.0;
      for (const double z : logits) total += logistic(z);
      for (std::size_t i = 0; i < 6; ++i) sum += share[i] * logistic(logits[i]) / total;
    }
    return 0.7 * 6.0 * sum / double(rows);
  };
  const Tensor dx = f.backward(zeros(f.x.shape()));
  CHECK(max_difference(dx, numeric_gradient(f.x, loss, 1e-3)) < 1e-9);
  CHECK(dot(dx, dx) > 1e-6);
}

TEST_CASE("weights on inputs scale what an expert reads") {
  RouterOptions router{.score = RouterScore::sigmoid, .normalised = false, .weighs_input = true};
  for (const double factor : {0.0, 0.6}) {
    MoeOptions moe = with_router(router, 1);
    moe.capacity_factor = factor;
    LayerFixture f(moe);
    const Tensor dy = random_tensor("dy", f.x.shape());
    const Tensor y = f.forward();
    CHECK_FALSE(f.kept[ExpertLayer::output].defined());
    const Tensor dx = f.backward(dy);
    const auto value = [&] { return dot(f.forward(), dy); };
    CAPTURE(factor);
    CHECK(max_difference(dx, numeric_gradient(f.x, value, 1e-4)) < 1e-6);
    for (int k = f.places.router; k < f.places.experts + 3; ++k) {
      const Tensor weight = f.parameters.weight(LayerFixture::kBlock + k);
      const Tensor gradient = f.parameters.gradient(LayerFixture::kBlock + k);
      CHECK(max_difference(gradient.flat(), numeric_gradient(weight, value, 1e-4).flat()) < 1e-6);
      CHECK(dot(gradient, gradient) > 1e-6);
    }
    moe.router.weighs_input = false;
    LayerFixture other(moe);
    CHECK(max_difference(y, other.forward()) > 1e-3);  // An expert is not linear.
  }
}

TEST_CASE("rows that a number of their own weighs have its gradient") {
  LocalRuntime runtime;
  const Tensor logits = random_tensor("logits", {5, 1});
  const Tensor x = random_tensor("x", {5, 4});
  const Tensor dy = random_tensor("dy", {5, 4});
  const auto value = [&] { return dot(gated_rows_forward(runtime, logits, x), dy); };
  CHECK(gated_rows_forward(runtime, logits, x).get(7) ==
        Approx(logistic(logits.get(1)) * x.get(7)).epsilon(1e-14));
  const GatedRowsGradient gradient = gated_rows_backward(runtime, logits, x, dy);
  CHECK(max_difference(gradient.logits, numeric_gradient(logits, value)) < 1e-10);
  CHECK(max_difference(gradient.x, numeric_gradient(x, value)) < 1e-10);
}

// 4 experts, 6 slots: the mean load is 1.5. An expert without tokens gains, as do those below it.
TEST_CASE("M9: a bias grows where loads are below the mean") {
  LocalRuntime runtime;
  RouterBiases biases;
  biases.begin(runtime, {{.block = 1, .num_experts = 4, .update_rate = 0.25},
                         {.block = 3, .num_experts = 4, .update_rate = 0.25}});
  const Tensor chosen = tensor_of({3, 2}, {0, 1, 0, 1, 0, 2}, DType::int32);
  biases.add_loads(runtime, 1, chosen);
  const Tensor even = tensor_of({2, 2}, {0, 1, 2, 3}, DType::int32);
  biases.add_loads(runtime, 3, even);
  biases.update(runtime);
  CHECK(max_difference(biases.bias_of(1), tensor_of({4}, {-0.25, -0.25, 0.25, 0.25})) == 0.0);
  CHECK(max_difference(biases.bias_of(3), zeros({4})) == 0.0);  // sign(0) = 0.
  biases.add_loads(runtime, 1, even);  // The loads of the first step are gone.
  biases.update(runtime);
  CHECK(max_difference(biases.bias_of(1), tensor_of({4}, {-0.25, -0.25, 0.25, 0.25})) == 0.0);
  CHECK_FALSE(biases.bias_of(0).defined());
}

TEST_CASE("a router that cannot be is refused by name") {
  const auto refusal = [](const RouterOptions& router, std::int64_t k = 2) -> std::string {
    try {
      (void)make_model(model_with_experts(with_router(router, k)));
    } catch (const Error& error) {
      return error.code() + std::string(" ") + error.what();
    }
    return "none";
  };
  CHECK(refusal({}) == "none");
  CHECK(refusal({.num_groups = 3, .group_topk = 2}) == "none");
  CHECK(refusal({.num_groups = 4}).find("num_groups is 4") != std::string::npos);
  CHECK(refusal({.num_groups = 2, .group_topk = 3}).find("group_topk is 3") != std::string::npos);
  CHECK(refusal({.num_groups = 6}).find("group_topk is 1") != std::string::npos);
  CHECK(refusal({.scaling_factor = 0.0}).find("scaling_factor") != std::string::npos);
  CHECK(refusal({.bias_update_rate = -1.0}).find("bias_update_rate") != std::string::npos);
  CHECK(refusal({.weighs_input = true}).find("weighs_input") != std::string::npos);
  CHECK(refusal({.weighs_input = true}, 1) == "none");
  CHECK(refusal({.z_loss_coefficient = NAN}).find("z_loss_coefficient") != std::string::npos);
}

}  // namespace shardsim::test
