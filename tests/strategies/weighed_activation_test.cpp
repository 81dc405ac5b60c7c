#include "strategies/model/weighed_activation.hpp"

#include <tuple>

#include <catch2/catch.hpp>

#include "tests/strategies/expert_layer_fixture.hpp"

// Weights of experts on activations, held against weights on outputs.
namespace shardsim::test {

// The same sums in another order: a few roundings of numbers of order 10.
TEST_CASE("weights on activations make what weights on outputs make, for every activation") {
  for (const Activation kind : {Activation::swiglu, Activation::geglu_tanh, Activation::gelu_tanh,
                                Activation::squared_relu, Activation::clamped_swiglu}) {
    const auto made = [&](bool keeps_outputs) {
      LayerFixture f(some_experts(RoutingKind::learned, 2), keeps_outputs, {.kind = kind});
      const Tensor dy = random_tensor("dy", f.x.shape());
      const Tensor y = f.forward();
      const Tensor dx = f.backward(dy);
      return std::tuple(y, dx, f.parameters.gradient(LayerFixture::kBlock + f.places.router));
    };
    const auto [y, dx, router] = made(true);
    const auto [other_y, other_dx, other_router] = made(false);
    CAPTURE(static_cast<int>(kind));
    CHECK(max_difference(y, other_y) < 1e-12);
    CHECK(max_difference(dx, other_dx) < 1e-12);
    CHECK(max_difference(router, other_router) < 1e-12);
    CHECK(max_difference(router, zeros(router.shape())) > 1e-3);
  }
}

}  // namespace shardsim::test
