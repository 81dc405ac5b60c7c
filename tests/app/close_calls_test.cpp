#include "strategies/model/close_calls.hpp"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/dtype.hpp"

#include "backends/stochastic_rounding.hpp"

#include "strategies/model/feed_forward_activation.hpp"

#include "sim/verify/open_calls.hpp"

// Decisions that rounding may turn: what is kept of them, which are open, and what a flip does.
namespace shardsim::test {

namespace {

using Ranking = std::vector<int>;
using Places = std::vector<OpenCalls::Place>;

// Two modules, each with two inputs of ReLU and a token for three experts, two of which are used.
void pass(double moved) {
  CloseCalls& calls = *CloseCalls::active();
  for (const int module : {0, 1}) {
    calls.forward(module);
    static_cast<void>(calls.is_above(3.0 + moved));
    static_cast<void>(calls.is_above(-0.5 + moved));
    static_cast<void>(calls.rank({1.0, 5.0, 4.0 + moved}, {1, 2, 0}, 2));
  }
}

OpenCalls with_errors(double moved) {
  OpenCalls open;
  {
    const CloseCalls calls;
    pass(0.0);
    open.add(calls);
  }
  const CloseCalls drawn(open.decisions(0), OpenCalls::kAll);
  pass(moved);
  open.add_drawn(0, drawn);
  return open;
}

}  // namespace

TEST_CASE("numbers decide, and given decisions hold up to their last module") {
  CloseCalls::Modules given;
  {
    const CloseCalls calls;
    pass(0.0);
    given = calls.modules();
  }
  CHECK(given.at(0).above == std::vector<bool>{true, false});
  given.at(0).above[1] = true;
  given.at(0).ranking[0] = {0, 1, 2};
  given.at(1) = given.at(0);
  const CloseCalls calls(given, 0);
  pass(0.0);
  CHECK(calls.modules().at(0).above == std::vector<bool>{true, true});
  CHECK(calls.modules().at(0).ranking[0] == Ranking{0, 1, 2});
  CHECK(calls.modules().at(1).above == std::vector<bool>{true, false});
  CHECK(calls.modules().at(1).ranking[0] == Ranking{1, 2, 0});
}

TEST_CASE("a forward that is computed again in a backward decides as before, and counts once") {
  CloseCalls calls;
  calls.forward(0);
  CHECK(calls.is_above(0.25));
  CHECK(calls.rank({1.0, 2.0}, {1, 0}, 1) == Ranking{1, 0});
  calls.backward(0);
  CHECK(calls.is_above(-0.25));
  CHECK(calls.rank({2.0, 1.0}, {0, 1}, 1) == Ranking{1, 0});
  CHECK(calls.modules().at(0).inputs == std::vector<double>{0.25});
  CHECK(calls.modules().at(0).ranking.size() == 1);
}

// A token that goes to another group has other experts to choose from than those that it had.
TEST_CASE("what was decided for other candidates decides nothing") {
  CloseCalls::Modules given;
  {
    CloseCalls calls;
    calls.forward(0);
    CHECK(calls.rank({3.0, 2.5}, {0, 1}, 1) == Ranking{0, 1});            // Groups,
    CHECK(calls.rank({1.0, 2.0, 0.0, 0.5}, {1, 0}, 1) == Ranking{1, 0});  // experts of group 0.
    given = calls.modules();
  }
  CHECK(given.at(0).used == std::vector<std::size_t>{1, 1});
  std::swap(given.at(0).ranking[0][0], given.at(0).ranking[0][1]);
  CloseCalls calls(given, 0);
  calls.forward(0);
  CHECK(calls.rank({3.0, 2.5}, {0, 1}, 1) == Ranking{1, 0});
  CHECK(calls.rank({1.0, 2.0, 0.0, 0.5}, {3, 2}, 1) == Ranking{3, 2});
  CHECK(calls.modules().at(0).ranking[1] == Ranking{3, 2});
}

TEST_CASE("a call is open within four drawn errors, the nearest first, if it decides anything") {
  CHECK(with_errors(0.1).open().empty());
  // 0.5 is within four times 0.2. Only the third expert is unused: 4 - 1 and 5 - 1 are far.
  const Places inputs = with_errors(0.2).open();
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0].module == 0);
  CHECK(inputs[1].module == 1);
  CHECK(inputs[0].number == 1);
  CHECK_FALSE(inputs[0].is_of_router());
  // Within four times 0.76 are both inputs, and the gap of 3 between expert 2 and expert 0. Experts
  // 1 and 2 are used both, so their order is no decision.
  const Places all = with_errors(0.76).open();
  REQUIRE(all.size() == 6);
  CHECK(all.back().is_of_router());
  CHECK(all.back().first == 1);
  CHECK(all.back().second == 2);
  for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i - 1].distance <= all[i].distance);
}

TEST_CASE(
    "a flip is undone by another, and a token's other expert leaves what follows to numbers") {
  OpenCalls open = with_errors(0.76);
  const Places places = open.open();
  const auto router = [&](int module) {
    for (const OpenCalls::Place& place : places) {
      if (place.is_of_router() && place.module == module) return place;
    }
    return OpenCalls::Place{};
  };
  open.flip(router(0));
  CHECK(open.decisions(0).at(0).ranking[0] == Ranking{1, 0, 2});
  open.flip(router(0));
  CHECK(open.decisions(0).at(0).ranking[0] == Ranking{1, 2, 0});
  CHECK(open.last(0) == OpenCalls::kAll);
  open.take({router(1), router(0)});
  CHECK(open.last(0) == 0);
  CHECK(open.decisions(0).at(0).ranking[0] == Ranking{1, 0, 2});
  CHECK(open.decisions(0).at(1).ranking[0] == Ranking{1, 2, 0});
}

// A correct strategy in bf16 was said to be wrong: its ranks clipped elements which the reference
// did not.
TEST_CASE("whether a gate is clipped is decided as others decided, in value and slope") {
  for (const DType dtype : {DType::fp64, DType::bf16}) {
    const ActivationForm form{.kind = Activation::clamped_swiglu, .limit = 0.05};
    // The gate, and up at either limit, one of each on its own side.
    for (const double excess : {-1e-4, 1e-4}) {
      LocalRuntime runtime;
      const auto make = [&](const std::vector<double>& values) {
        Tensor tensor = new_activation(runtime, {3}, dtype);
        store(tensor, values);
        return tensor;
      };
      const double beside = form.limit + excess;
      const std::vector<double> gates = {beside, 0.01, 0.01};
      const std::vector<double> ups = {0.01, beside, -beside};
      CloseCalls::Modules given;
      {
        CloseCalls calls;
        calls.forward(0);
        static_cast<void>(first_activation(runtime, form, make(gates), make(ups)));
        given = calls.modules();
      }
      std::vector<bool>& above = given.at(0).above;
      REQUIRE(above.size() == 9);  // Each element: the gate, and both sides of up.
      for (const std::size_t changed : {0U, 4U, 8U}) {
        CAPTURE(to_string(dtype), excess, changed);
        const bool was_beyond = above[changed];
        above[changed] = !was_beyond;
        const Tensor gate = make(gates);
        const Tensor up = make(ups);
        const Tensor dy = make({1.0, 1.0, 1.0});
        CloseCalls calls(given, 0);
        calls.forward(0);
        static_cast<void>(first_activation(runtime, form, gate, up));
        const Tensor d_gate = activation_backward(runtime, form, gate, up, dy);
        // A clipped number has no slope.
        const Tensor& slope = changed == 0 ? d_gate : dy;
        CHECK((slope.get(static_cast<std::int64_t>(changed / 3)) == 0.0) == !was_beyond);
        above[changed] = was_beyond;
      }
    }
  }
}

// The mean square of a rounding drawn that is seen from nearest is half a spacing squared.
TEST_CASE("shared sums get the errors of their further roundings, the same for both signs") {
  constexpr int kNumbers = 20000;
  for (const double more : {0.5, 1.0, 2.5}) {
    const StochasticRounding drawn(7, {.tensor_ranks = more});
    double squares = 0.0;
    for (int i = 0; i < kNumbers; ++i) {
      const double value = 1.0 + i * 0x1p-20;  // Spacings of 2^-23 in fp32.
      const double moved = drawn.round_more(value, DType::fp32, SumOver::tensor_ranks);
      CHECK(drawn.round_more(-value, DType::fp32, SumOver::tensor_ranks) == -moved);
      CHECK(drawn.round_more(value, DType::fp32, SumOver::key_blocks) == value);
      squares += std::pow((moved - value) / spacing_at(value, DType::fp32), 2);
    }
    // Its standard deviation over 20,000 numbers is below one percent.
    CHECK(squares / kNumbers == Approx(more / 2.0).epsilon(0.05));
  }
}

}  // namespace shardsim::test
