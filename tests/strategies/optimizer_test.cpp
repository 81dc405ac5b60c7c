#include "strategies/optimizer/optimizer.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

#include "strategies/optimizer/rules.hpp"

#include "tests/strategies/recording_runtime.hpp"

using namespace shardsim;

namespace {

Tensor filled(const std::vector<double>& values, DType dtype) {
  Tensor tensor =
      Tensor::allocate(nullptr, MemoryCategory::params,
                       Shape{static_cast<std::int64_t>(values.size())}, dtype, /*meta=*/false);
  store(tensor, values);
  return tensor;
}

// One fp64 element, stepped with the given gradients; returns the parameter after each step.
std::vector<double> trajectory(const char* name, const OptimizerOptions& options, double parameter,
                               const std::vector<double>& gradients, double gradient_scale = 1.0) {
  LocalRuntime runtime;
  const auto optimizer = make_optimizer(name, options);
  const Tensor p = filled({parameter}, DType::fp64);
  const Tensor g = filled({0.0}, DType::fp64);
  std::vector<Tensor> state(optimizer->state_names().size());
  for (Tensor& tensor : state) tensor = filled({0.0}, DType::fp64);
  std::vector<double> seen;
  std::int64_t step = 0;
  for (const double gradient : gradients) {
    g.set(0, gradient);
    optimizer->step(runtime, p, g, state, gradient_scale, ++step);
    seen.push_back(p.get(0));
  }
  return seen;
}

// The values below are computed by hand in decimal; the program rounds about ten times on the way.
Approx relatively_about(double value) { return Approx(value).epsilon(1e-14).margin(0.0); }

}  // namespace

TEST_CASE("sgd moves against the gradient plus the decay term") {
  OptimizerOptions options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.1;
  const auto p = trajectory("sgd", options, 1.0, {0.5, 0.5});
  CHECK(p[0] == relatively_about(1.0 - 0.1 * 0.6));
  CHECK(p[1] == relatively_about(0.94 - 0.1 * 0.594));
}

TEST_CASE("momentum starts from the gradient and then adds to the buffer") {
  OptimizerOptions options;
  options.learning_rate = 0.1;
  options.momentum = 0.9;
  const auto p = trajectory("momentum", options, 1.0, {0.5, 0.5, -1.0});
  CHECK(p[0] == relatively_about(0.95));
  CHECK(p[1] == relatively_about(0.855));           // Buffer 0.95.
  CHECK(p[2] == relatively_about(0.855 + 0.0145));  // Buffer 0.855 - 1 = -0.145.
}

TEST_CASE("a state of fewer bits is rounded once a step, and the update is not") {
  LocalRuntime runtime;
  OptimizerOptions options;
  options.learning_rate = 1.0;
  options.momentum = 0.5;
  const auto optimizer = make_optimizer("momentum", options);
  const Tensor p = filled({0.0}, DType::fp64);
  const Tensor g = filled({1.0 + 0x1p-9}, DType::fp64);
  const std::vector<Tensor> state = {filled({0.0}, DType::bf16)};
  optimizer->step(runtime, p, g, state, 1.0, 1);
  CHECK(p.get(0) == -(1.0 + 0x1p-9));
  CHECK(state[0].get(0) == 1.0);  // Eight bits.
  g.set(0, 0.0);
  optimizer->step(runtime, p, g, state, 1.0, 2);
  CHECK(p.get(0) == -(1.0 + 0x1p-9) - 0.5);
}

TEST_CASE("adam corrects both moments for their zero start and adds epsilon outside the root") {
  OptimizerOptions options;
  options.learning_rate = 0.5;
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.epsilon = 2.0;
  // Step 1: m = 1, v = 1, corrected 2 and 4: 0.5 * 2 / (2 + 2) = 0.25.
  // Step 2: m = -0.5, v = 1.75, corrected -2/3 and 4: 0.5 * (-2/3) / 4 = -1/12.
  const auto p = trajectory("adam", options, 1.0, {2.0, -2.0});
  CHECK(p[0] == relatively_about(0.75));
  CHECK(p[1] == relatively_about(0.75 + 1.0 / 12.0));
}

TEST_CASE("adam's decay enters the moments, adamw's does not") {
  OptimizerOptions options;
  options.learning_rate = 0.5;
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.epsilon = 2.0;
  options.weight_decay = 0.5;
  // adam: the gradient is 2 + 0.5 * 4 = 4, corrected moments 4 and 16: 0.5 * 4 / (4 + 2).
  CHECK(trajectory("adam", options, 4.0, {2.0})[0] == relatively_about(4.0 - 1.0 / 3.0));
  // adamw: 4 * (1 - 0.25) = 3, then the 0.25 of the plain step.
  CHECK(trajectory("adamw", options, 4.0, {2.0})[0] == relatively_about(2.75));
}

TEST_CASE("bias corrections are one minus the power of beta at every step") {
  const OptimizerOptions options{.beta1 = 0.5, .beta2 = 0.25};
  double power = 1.0;
  for (std::int64_t step = 1; step <= 20; ++step) {
    power *= 0.5;  // Exact, as are its square and one minus either: 40 bits.
    CHECK(step_constants(options, step).bias_correction1 == 1.0 - power);
    CHECK(step_constants(options, step).bias_correction2 == 1.0 - power * power);
  }
}

TEST_CASE("rmsprop divides by the root of the running square") {
  OptimizerOptions options;
  options.learning_rate = 0.1;
  options.rms_alpha = 0.75;
  options.epsilon = 1.0;
  const auto p = trajectory("rmsprop", options, 1.0, {2.0, 2.0});
  CHECK(p[0] == relatively_about(0.9));  // Square average 1.
  CHECK(p[1] == relatively_about(0.9 - 0.2 / (std::sqrt(1.75) + 1.0)));
}

TEST_CASE("lion moves by the sign of a mean of old and new, and decays apart from it") {
  OptimizerOptions options;
  options.learning_rate = 0.125;
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.weight_decay = 0.5;
  // Means 0.5 x 2 = 1; 0.5 x 0.5 + 0.5 x (-0.25) = 0.125; 0.5 x 0.3125 - 0.5 x 4 < 0; then moments
  // 0.5, 0.3125, -0.765625 and gradient 0.765625: 0, which moves nothing but by the decay.
  const auto p = trajectory("lion", options, 4.0, {2.0, -0.25, -4.0, 0.765625});
  CHECK(p[0] == 4.0 * 0.9375 - 0.125);
  CHECK(p[1] == p[0] * 0.9375 - 0.125);
  CHECK(p[2] == p[1] * 0.9375 + 0.125);
  CHECK(p[3] == p[2] * 0.9375);
}

TEST_CASE("the gradient is scaled before anything else") {
  const OptimizerOptions options;
  for (const std::string_view name : optimizer_names()) {
    const std::string text(name);
    CHECK(trajectory(text.c_str(), options, 1.0, {0.5, -3.0}) ==
          trajectory(text.c_str(), options, 1.0, {1.0, -6.0}, 0.5));
  }
}

TEST_CASE("any partition of a parameter gives bitwise the same step") {
  rc::prop("slices of random lengths equal the whole", [](std::uint64_t seed) {
    const auto length = *rc::gen::inRange<std::int64_t>(1, 60);
    const auto name = *rc::gen::elementOf(optimizer_names());
    const auto dtype = *rc::gen::element(DType::fp32, DType::fp64);
    const auto optimizer = make_optimizer(name, {.learning_rate = 0.01, .weight_decay = 0.1});
    const std::size_t num_states = optimizer->state_names().size();
    const RandomStream random(seed, "optimizer test");
    std::vector<double> start(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < start.size(); ++i) start[i] = random.bell(i);

    const Tensor whole = filled(start, dtype);
    const Tensor sliced = filled(start, dtype);
    const Tensor gradient = filled(start, dtype);
    std::vector<Tensor> whole_state(num_states, Tensor{});
    std::vector<Tensor> sliced_state(num_states, Tensor{});
    for (Tensor& state : whole_state) state = filled(std::vector<double>(start.size()), dtype);
    for (Tensor& state : sliced_state) state = filled(std::vector<double>(start.size()), dtype);

    LocalRuntime runtime;
    for (std::int64_t step = 1; step <= 3; ++step) {
      for (std::int64_t i = 0; i < length; ++i) {
        gradient.set(i, random.bell(static_cast<std::uint64_t>(step * 1000 + i)));
      }
      optimizer->step(runtime, whole, gradient, whole_state, 0.7, step);
      for (std::int64_t first = 0; first < length;) {
        const Shape part{*rc::gen::inRange<std::int64_t>(1, length - first + 1)};
        std::vector<Tensor> part_state;
        for (const Tensor& state : sliced_state) part_state.push_back(state.view(first, part));
        optimizer->step(runtime, sliced.view(first, part), gradient.view(first, part), part_state,
                        0.7, step);
        first += part.numel();
      }
    }
    const auto bytes = static_cast<std::size_t>(whole.num_bytes());
    RC_ASSERT(std::memcmp(whole.data(), sliced.data(), bytes) == 0);
    for (std::size_t k = 0; k < num_states; ++k) {
      RC_ASSERT(std::memcmp(whole_state[k].data(), sliced_state[k].data(), bytes) == 0);
    }
    RC_ASSERT(std::memcmp(whole.data(), filled(start, dtype).data(), bytes) != 0);
  });
}

TEST_CASE("an fp32 parameter is stepped in double and rounded once") {
  LocalRuntime runtime;
  const Tensor parameter = filled({1.0}, DType::fp32);
  const Tensor gradient = filled({1.0}, DType::fp32);
  const auto sgd = make_optimizer("sgd", {.learning_rate = 1.0, .weight_decay = 0x1p-30});
  sgd->step(runtime, parameter, gradient, {}, 1.0, 1);
  CHECK(parameter.get(0) == -0x1p-30);  // 1 + 2^-30 does not survive a rounding to fp32.
}

TEST_CASE("a step costs one read of the gradient, one read and write of all else, data or not") {
  test::RecordingRuntime real(true);
  test::RecordingRuntime meta(false);
  for (test::RecordingRuntime* runtime : {&real, &meta}) {
    const auto allocate = [&](DType dtype) {
      return runtime->allocate(MemoryCategory::optimizer, Shape{10}, dtype);
    };
    const Tensor parameter = allocate(DType::fp32);
    const Tensor gradient = allocate(DType::bf16);
    const std::vector<Tensor> state = {allocate(DType::fp32), allocate(DType::fp32)};
    make_optimizer("adamw", {})->step(*runtime, parameter, gradient, state, 1.0, 1);
    REQUIRE(runtime->ops().size() == 1);
    CHECK(runtime->ops()[0].kind == ComputeKind::memory_bound);
    CHECK(runtime->ops()[0].bytes == 10 * (2 * 4 + 2 + 2 * 8));
  }
  CHECK(real.record() == meta.record());
}

TEST_CASE("an unknown optimizer, a wrong slice and step zero are refused with the way out") {
  LocalRuntime runtime;
  const auto adam = make_optimizer("adam", {});
  const Tensor one = filled({1.0}, DType::fp64);
  const Tensor two = filled({1.0, 2.0}, DType::fp64);
  const std::vector<Tensor> state = {one, one};
  const std::vector<Tensor> wrong_state = {one, two};
  CHECK_THROWS_AS(adam->step(runtime, one, two, state, 1.0, 1), UsageError);
  CHECK_THROWS_AS(adam->step(runtime, one, one, wrong_state, 1.0, 1), UsageError);
  CHECK_THROWS_AS(adam->step(runtime, one, one, {}, 1.0, 1), UsageError);
  CHECK_THROWS_AS(adam->step(runtime, one, one, state, 1.0, 0), UsageError);
  try {
    const auto none = make_optimizer("adan", {});
    FAIL("an optimizer named adan was made");
  } catch (const UsageError& error) {
    CHECK(error.fix() == "use one of sgd, momentum, adam, adamw, rmsprop, lion");
  }
}
