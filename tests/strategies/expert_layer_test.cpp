#include "strategies/model/expert_layer.hpp"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/expert_layer_fixture.hpp"

// Experts on one device against loops over tokens and experts, and their gradients against
// difference quotients.
namespace shardsim::test {
namespace {

double silu(double g) { return g / (1.0 + std::exp(-g)); }

// The output of expert `expert` for a token.
std::vector<double> expert_of_token(LayerFixture& f, std::int64_t token, std::int64_t expert) {
  const std::int64_t h = f.options.hidden_size;
  const std::int64_t inner = f.options.moe.ffn_hidden_size;
  const auto weight = [&](int k) {
    return f.parameters.weight(LayerFixture::kBlock + f.places.experts + k);
  };
  std::vector<double> y(static_cast<std::size_t>(h), 0.0);
  for (std::int64_t i = 0; i < inner; ++i) {
    double gate = 0.0;
    double up = 0.0;
    for (std::int64_t j = 0; j < h; ++j) {
      gate += weight(0).get((expert * inner + i) * h + j) * f.x.get(token * h + j);
      up += weight(1).get((expert * inner + i) * h + j) * f.x.get(token * h + j);
    }
    for (std::int64_t j = 0; j < h; ++j) {
      y[static_cast<std::size_t>(j)] +=
          weight(2).get((expert * h + j) * inner + i) * silu(gate) * up;
    }
  }
  return y;
}

}  // namespace

// One rounding per sum of up to 8 terms of order 10: 1e-13; a wrong expert or gate shows as 1e-1.
TEST_CASE("routed experts are the gated sum of the chosen MLPs of each token") {
  for (const RoutingKind routing :
       {RoutingKind::learned, RoutingKind::uniform, RoutingKind::skewed}) {
    for (const std::int64_t k : {1, 2, 5}) {
      for (const double factor : {0.0, 0.5, 1.0}) {
        MoeOptions moe = some_experts(routing, k);
        moe.capacity_factor = factor;
        LayerFixture f(moe, /*keeps_outputs=*/k != 2);
        const Tensor y = f.forward();
        const std::int64_t rows = 2 * f.options.seq_len;
        const std::int64_t room = capacity(moe, rows);
        std::vector<std::int64_t> taken(5, 0);
        double worst = 0.0;
        for (std::int64_t token = 0; token < rows; ++token) {
          const std::vector<double> logits = logits_of_token(f, token);
          std::set<std::int64_t> chosen;
          double sum = 0.0;
          for (std::int64_t slot = 0; slot < k; ++slot) {
            const auto expert =
                static_cast<std::int64_t>(f.kept[ExpertLayer::chosen].get(token * k + slot));
            chosen.insert(expert);
            sum += std::exp(logits[static_cast<std::size_t>(expert)]);
          }
          REQUIRE(chosen.size() == static_cast<std::size_t>(k));
          if (routing == RoutingKind::learned) {
            for (std::int64_t other = 0; other < 5; ++other) {
              for (const std::int64_t mine : chosen) {
                const bool larger = logits[static_cast<std::size_t>(other)] >
                                    logits[static_cast<std::size_t>(mine)];
                CHECK((chosen.count(other) == 1 || !larger));
              }
            }
          }
          std::vector<double> expected(static_cast<std::size_t>(f.options.hidden_size), 0.0);
          for (const std::int64_t expert : chosen) {
            if (factor > 0.0 && taken[static_cast<std::size_t>(expert)]++ >= room) continue;
            const double gate = std::exp(logits[static_cast<std::size_t>(expert)]) / sum;
            const std::vector<double> made = expert_of_token(f, token, expert);
            for (std::size_t j = 0; j < made.size(); ++j) expected[j] += gate * made[j];
          }
          for (std::size_t j = 0; j < expected.size(); ++j) {
            const double there =
                y.get(token * f.options.hidden_size + static_cast<std::int64_t>(j));
            worst = std::max(worst, std::fabs(there - expected[j]));
          }
        }
        CAPTURE(static_cast<int>(routing), k, factor);
        CHECK(worst < 1e-12);
      }
    }
  }
}

// The step is 1e-4: wrong by 1e-16 times the fifth derivative and 1e-11 of rounding.
TEST_CASE("gradients of routed experts equal difference quotients") {
  for (const RoutingKind routing : {RoutingKind::learned, RoutingKind::uniform}) {
    for (const auto& [factor, keeps_outputs] :
         {std::pair{0.0, true}, {0.6, true}, {0.0, false}, {0.6, false}}) {
      MoeOptions moe = some_experts(routing, 2);
      moe.capacity_factor = factor;
      LayerFixture f(moe, keeps_outputs);
      const Tensor dy = random_tensor("dy", f.x.shape());
      (void)f.forward();
      CHECK(f.kept[ExpertLayer::output].defined() == keeps_outputs);
      const Tensor dx = f.backward(dy);
      const auto value = [&] { return dot(f.forward(), dy); };
      CAPTURE(static_cast<int>(routing), factor, keeps_outputs);
      CHECK(max_difference(dx, numeric_gradient(f.x, value, 1e-4)) < 1e-6);
      for (int k = f.places.router; k <= f.places.experts + 2; ++k) {
        const Tensor weight = f.parameters.weight(LayerFixture::kBlock + k);
        const Tensor gradient = f.parameters.gradient(LayerFixture::kBlock + k);
        const Tensor quotient = numeric_gradient(weight, value, 1e-4);
        CAPTURE(k);
        CHECK(max_difference(gradient.flat(), quotient.flat()) < 1e-6);
        double largest = 0.0;
        for (std::int64_t i = 0; i < gradient.numel(); ++i) {
          largest = std::max(largest, std::fabs(gradient.get(i)));
        }
        CHECK(largest > 1e-3);  // Else the comparison would say nothing.
      }
    }
  }
}

TEST_CASE("experts on latents have the gradients of their quotients, and rows of their width") {
  for (const bool weighs_input : {false, true}) {
    MoeOptions moe = some_experts(RoutingKind::learned, weighs_input ? 1 : 2);
    moe.latent_size = 3;
    if (weighs_input) moe.router = {.score = RouterScore::sigmoid, .normalised = false};
    moe.router.weighs_input = weighs_input;
    LayerFixture f(moe);
    const Tensor dy = random_tensor("dy", f.x.shape());
    (void)f.forward();
    CHECK(last_dim(f.kept[ExpertLayer::input]) == 3);
    CHECK(last_dim(f.kept[ExpertLayer::latent_output]) == 3);
    const Tensor dx = f.backward(dy);
    const auto value = [&] { return dot(f.forward(), dy); };
    CAPTURE(weighs_input);
    CHECK(max_difference(dx, numeric_gradient(f.x, value, 1e-4)) < 1e-6);
    // Router, both projections, gate, up and down.
    for (int k = f.places.router; k <= f.places.experts + 2; ++k) {
      const Tensor gradient = f.parameters.gradient(LayerFixture::kBlock + k);
      const Tensor quotient =
          numeric_gradient(f.parameters.weight(LayerFixture::kBlock + k), value, 1e-4);
      CAPTURE(k);
      CHECK(max_difference(gradient.flat(), quotient.flat()) < 1e-6);
      CHECK(max_difference(gradient, zeros(gradient.shape())) > 1e-3);
    }
  }
}

TEST_CASE("latents of experts are summed by the matrices around them") {
  MoeOptions moe = some_experts(RoutingKind::learned, 2);
  moe.latent_size =
      8;  // As wide as the model: with the identity on both sides they change nothing.
  LayerFixture with(moe);
  moe.latent_size = 0;
  LayerFixture without(moe);
  const auto weight = [](LayerFixture& f, int k) {
    return f.parameters.weight(LayerFixture::kBlock + k);
  };
  for (const int latent : {1, 2}) {
    for (std::int64_t i = 0; i < 64; ++i) {
      weight(with, with.places.router + latent).set(i, i % 9 == 0 ? 1.0 : 0.0);
    }
  }
  for (int k = 0; k < 3; ++k) {
    const Tensor own = weight(with, with.places.experts + k);
    for (std::int64_t i = 0; i < own.numel(); ++i) {
      own.set(i, weight(without, without.places.experts + k).get(i));
    }
  }
  const Tensor router = weight(with, with.places.router);
  for (std::int64_t i = 0; i < router.numel(); ++i) {
    router.set(i, weight(without, without.places.router).get(i));
  }
  CHECK(max_difference(with.forward(), without.forward()) < 1e-13);
}

// L = coefficient E sum f_i P_i with the shares f held, over two groups of one sample each.
TEST_CASE("the auxiliary loss has the gradient of its definition, group by group") {
  MoeOptions moe = some_experts(RoutingKind::learned, 2);
  moe.auxiliary_loss_coefficient = 0.7;
  LayerFixture f(moe);
  f.batch.routing = {.balanced_samples = 1, .balance_scale = 0.25, .microbatch_samples = 1};
  (void)f.forward();
  const std::int64_t s = f.options.seq_len;
  std::vector<double> share(2 * 5, 0.0);
  for (std::int64_t i = 0; i < 2 * s * 2; ++i) {
    const auto expert = static_cast<std::int64_t>(f.kept[ExpertLayer::chosen].get(i));
    share[static_cast<std::size_t>(i / (2 * s) * 5 + expert)] += 1.0 / static_cast<double>(2 * s);
  }
  const auto loss = [&] {
    double sum = 0.0;
    for (std::int64_t token = 0; token < 2 * s; ++token) {
      const std::vector<double> logits = logits_of_token(f, token);
      double total = 0.0;
      for (const double logit : logits) total += std::exp(logit);
      for (std::size_t i = 0; i < 5; ++i) {
        sum += share[static_cast<std::size_t>(token / s * 5) + i] * std::exp(logits[i]) / total /
               static_cast<double>(s);
      }
    }
    return 0.25 * 0.7 * 5.0 * sum;
  };
  const Tensor dx = f.backward(zeros(f.x.shape()));
  CHECK(max_difference(dx, numeric_gradient(f.x, loss, 1e-3)) < 1e-9);
  const Tensor router = f.parameters.weight(LayerFixture::kBlock + f.places.router);
  const Tensor gradient = f.parameters.gradient(LayerFixture::kBlock + f.places.router);
  CHECK(max_difference(gradient.flat(), numeric_gradient(router, loss, 1e-3).flat()) < 1e-9);
  CHECK(dot(gradient, gradient) > 1e-6);
}

TEST_CASE("a capacity is what the factor says in decimals, and never more than all tokens") {
  const auto rows = [](std::int64_t tokens, std::int64_t k, std::int64_t experts, double factor) {
    MoeOptions moe;
    moe.num_experts = experts;
    moe.experts_per_token = k;
    moe.capacity_factor = factor;
    return capacity(moe, tokens);
  };
  // 100 x 1.1 is more than 110 in binary, and 100 x 0.07 more than 7.
  CHECK(rows(400, 2, 8, 1.1) == 110);
  CHECK(rows(100, 1, 1, 0.07) == 7);
  CHECK(rows(4096, 1, 64, 1.25) == 80);
  CHECK(rows(400, 2, 8, 1.0) == 100);
  CHECK(rows(401, 2, 8, 1.0) == 101);  // 100.25
  CHECK(rows(400, 2, 8, 1.1001) == 111);
  CHECK(rows(400, 2, 8, 1e-300) == 1);
  CHECK(rows(400, 2, 8, 3.9975) == 400);  // 399.75
  CHECK(rows(400, 2, 8, 4.0) == 400);
  CHECK(rows(400, 2, 8, 4.01) == 400);
  CHECK(rows(400, 2, 8, 1e300) == 400);
  CHECK(rows(3, 2, 2, 1.5) == 3);
}

// The sums below have up to 8 products of bf16 numbers, exact in fp64, and are rounded to fp32
// once: logits and what is made of them must be the very floats. In bf16 they differ at once.
TEST_CASE("the router keeps logits, probabilities and gates in fp32 where all else is bf16") {
  LocalRuntime runtime;
  const Tensor x = runtime.allocate(MemoryCategory::activations, Shape{7, 8}, DType::bf16);
  const Tensor weight = runtime.allocate(MemoryCategory::params, Shape{5, 8}, DType::bf16);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, std::sin(1.0 + 3.7 * double(i)));
  for (std::int64_t i = 0; i < weight.numel(); ++i) weight.set(i, std::cos(2.3 * double(i)));
  const RouterOutput routed = router_forward(runtime, x, {weight, {}, {}}, {{}, 2}, {});
  REQUIRE(routed.scores.dtype() == DType::fp32);
  REQUIRE(routed.gates.dtype() == DType::fp32);
  for (std::int64_t row = 0; row < 7; ++row) {
    std::vector<double> powers;
    double all = 0.0;
    for (std::int64_t expert = 0; expert < 5; ++expert) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < 8; ++i) sum += x.get(row * 8 + i) * weight.get(expert * 8 + i);
      powers.push_back(std::exp(static_cast<double>(static_cast<float>(sum))));
      all += powers.back();
    }
    double of_chosen = 0.0;
    const auto chosen = [&](std::int64_t slot) {
      return powers.at(static_cast<std::size_t>(routed.chosen.get(row * 2 + slot)));
    };
    for (std::int64_t slot = 0; slot < 2; ++slot) of_chosen += chosen(slot);
    // One rounding to fp32, 2^-24 of it, and less than that much for exp in another order.
    constexpr double kRounding = 1.2e-7;
    for (std::int64_t slot = 0; slot < 2; ++slot) {
      const double gate = chosen(slot) / of_chosen;
      CHECK(std::fabs(routed.gates.get(row * 2 + slot) - gate) <= kRounding * gate);
    }
    for (std::int64_t expert = 0; expert < 5; ++expert) {
      const double share = powers[static_cast<std::size_t>(expert)] / all;
      CHECK(std::fabs(routed.scores.get(row * 5 + expert) - share) <= kRounding * share);
    }
  }
}

TEST_CASE("a mixture of experts that cannot be is refused by name") {
  const auto code_of = [](const auto& change) -> std::string {
    ModelOptions options = model_with_experts(some_experts(RoutingKind::learned, 2));
    change(options);
    try {
      (void)make_model(options);
    } catch (const Error& error) {
      return error.code();
    }
    return "none";
  };
  CHECK(code_of([](ModelOptions&) {}) == "none");
  CHECK(code_of([](ModelOptions& o) { o.moe.experts_per_token = 6; }) == "E0644");
  CHECK(code_of([](ModelOptions& o) { o.moe.first_dense_layers = 2; }) == "E0644");
  CHECK(code_of([](ModelOptions& o) { o.moe.expert_parallel = 2; }) == "E0644");
  CHECK(code_of([](ModelOptions& o) { o.moe.capacity_factor = NAN; }) == "E0644");
  CHECK(code_of([](ModelOptions& o) { o.moe.routing = RoutingKind::listed; }) == "E0644");
  CHECK(code_of([](ModelOptions& o) {
          o.family = "gpt2";
          o.num_query_groups = 4;
        }) == "E0645");
  CHECK(code_of([](ModelOptions& o) { o.tensor_parallel = 2; }) == "E0646");
}

}  // namespace shardsim::test
