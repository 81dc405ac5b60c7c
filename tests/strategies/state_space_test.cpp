#include "strategies/model/state_space.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// M10 for Mamba-2: chunks against the recurrence as the paper writes it; gradients against
// difference quotients; work and memory against their formulas.
namespace shardsim::test {
namespace {

LocalRuntime scan_runtime;

// x, B and C in one tensor, dt' in another, behind three columns of something else.
struct ScanTensors {
  Tensor xbc;
  Tensor steps;
  Tensor a_log;
  Tensor dt_bias;
  Tensor d_skip;

  [[nodiscard]] StateSpaceInput input(const StateSpaceShape& shape) const {
    const std::int64_t x = shape.x_row();
    const std::int64_t group = shape.group_row();
    return {
        {xbc, 0, x}, {xbc, x, group}, {xbc, x + group, group}, {steps, 3, shape.num_heads}, a_log,
        dt_bias,     d_skip};
  }
};

template <class Make>
ScanTensors scan_tensors(const StateSpaceShape& shape, Make&& make) {
  const std::int64_t heads = shape.num_heads;
  return {make("xbc", Shape{shape.batch, shape.seq_len, shape.x_row() + 2 * shape.group_row()}),
          make("dt", Shape{shape.batch, shape.seq_len, 3 + heads}), make("A_log", Shape{heads}),
          make("dt_bias", Shape{heads}), make("D", Shape{heads})};
}

ScanTensors random_scan(const StateSpaceShape& shape) {
  return scan_tensors(shape,
                      [](const char* name, const Shape& of) { return random_tensor(name, of); });
}

StateSpaceShape scan_shape(std::int64_t s, std::int64_t chunk) {
  return {.batch = 2,
          .seq_len = s,
          .num_heads = 4,
          .head_size = 2,
          .num_groups = 2,
          .state_size = 3,
          .chunk = chunk};
}

// One head of one sample, position by position.
void recur_scan_head(const StateSpaceShape& shape, const StateSpaceInput& input,
                     std::int64_t first_row, std::int64_t head, const Tensor& y) {
  const std::int64_t p = shape.head_size;
  const std::int64_t n = shape.state_size;
  const std::int64_t group = head / (shape.num_heads / shape.num_groups) * n;
  std::vector<double> state(to_size(p * n));
  for (std::int64_t row = first_row; row < first_row + shape.seq_len; ++row) {
    const double dt = std::log(1.0 + std::exp(input.dt.get(row, head) + input.dt_bias.get(head)));
    const double decay = std::exp(-std::exp(input.a_log.get(head)) * dt);
    for (std::int64_t i = 0; i < p; ++i) {
      const double x = input.x.get(row, head * p + i);
      double sum = input.d_skip.get(head) * x;
      for (std::int64_t j = 0; j < n; ++j) {
        double& entry = state[to_size(i * n + j)];
        entry = decay * entry + dt * x * input.b.get(row, group + j);
        sum += entry * input.c.get(row, group + j);
      }
      y.set(row * shape.x_row() + head * p + i, sum);
    }
  }
}

Tensor scan_recurrence(const StateSpaceShape& shape, const StateSpaceInput& input) {
  const Tensor y = zeros({shape.batch, shape.seq_len, shape.x_row()});
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      recur_scan_head(shape, input, sample * shape.seq_len, head, y);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("M10: the selective scan in chunks is the recurrence, for any chunk") {
  for (const std::int64_t s : {1, 7, 8, 13}) {
    for (const std::int64_t chunk : {1, 2, 3, 4, 7, 8, 128}) {
      CAPTURE(s, chunk);
      const StateSpaceShape shape = scan_shape(s, chunk);
      const StateSpaceInput input = random_scan(shape).input(shape);
      // Some hundred roundings of numbers of order ten. A wrong term shows as 1e-2.
      CHECK(max_difference(state_space_forward(scan_runtime, shape, input),
                           scan_recurrence(shape, input)) < 1e-12);
    }
  }
}

TEST_CASE("selective scan: gradients of columns, A_log, dt_bias and D") {
  for (const std::int64_t chunk : {3, 128}) {
    CAPTURE(chunk);
    const StateSpaceShape shape = scan_shape(7, chunk);
    const ScanTensors tensors = random_scan(shape);
    const StateSpaceInput input = tensors.input(shape);
    const Tensor dy = random_tensor("dy", {2, 7, shape.x_row()});
    const auto value = [&] { return dot(state_space_forward(scan_runtime, shape, input), dy); };
    const ScanTensors gradient = scan_tensors(
        shape, [](const char*, const Shape& of) { return random_tensor("before", of); });
    const Tensor steps_before = copy_of(gradient.steps);
    const Tensor before = copy_of(gradient.a_log);  // That of the other vectors, too.
    state_space_backward(scan_runtime, shape, input, dy, gradient.input(shape));
    // Quotients are wrong by 1e-12 / 30 times a fifth derivative, of some ten thousands at most.
    CHECK(max_difference(gradient.xbc, numeric_gradient(tensors.xbc, value)) < 1e-8);
    const Tensor d_steps = numeric_gradient(tensors.steps, value);
    for (std::int64_t row = 0; row < 14; ++row) {  // The columns of something else stay.
      for (std::int64_t i = 0; i < 3; ++i) d_steps.set(row * 7 + i, steps_before.get(row * 7 + i));
    }
    CHECK(max_difference(gradient.steps, d_steps) < 1e-8);
    const auto check_vector = [&](const Tensor& actual, const Tensor& vector) {
      const auto with_before = [&] { return value() + dot(vector, before); };
      CHECK(max_difference(actual, numeric_gradient(vector, with_before)) < 1e-8);
    };
    check_vector(gradient.a_log, tensors.a_log);
    check_vector(gradient.dt_bias, tensors.dt_bias);
    check_vector(gradient.d_skip, tensors.d_skip);
  }
}

TEST_CASE("M10: gradients of the selective scan do not depend on the chunk") {
  const StateSpaceShape first = scan_shape(13, 1);
  const StateSpaceInput input = random_scan(first).input(first);
  const Tensor dy = random_tensor("dy", {2, 13, first.x_row()});
  const auto gradient = [&](const StateSpaceShape& shape) {
    const ScanTensors of =
        scan_tensors(shape, [](const char*, const Shape& part) { return zeros(part); });
    state_space_backward(scan_runtime, shape, input, dy, of.input(shape));
    return of;
  };
  const ScanTensors expected = gradient(first);
  for (const std::int64_t chunk : {2, 5, 8, 13, 128}) {
    CAPTURE(chunk);
    const ScanTensors actual = gradient(scan_shape(13, chunk));
    // Some thousand roundings of numbers of order ten.
    CHECK(max_difference(actual.xbc, expected.xbc) < 1e-12);
    CHECK(max_difference(actual.steps, expected.steps) < 1e-12);
    CHECK(max_difference(actual.a_log, expected.a_log) < 1e-12);
    CHECK(max_difference(actual.dt_bias, expected.dt_bias) < 1e-12);
    CHECK(max_difference(actual.d_skip, expected.d_skip) < 1e-12);
  }
}

TEST_CASE("M3: the selective scan asks for the same with and without data") {
  for (const std::int64_t chunk : {3, 128}) {
    RecordingRuntime real(true);
    RecordingRuntime meta(false);
    for (RecordingRuntime* const runtime : {&real, &meta}) {
      const StateSpaceShape shape = scan_shape(7, chunk);
      const auto make = [&](const char*, const Shape& of) {
        return runtime->allocate(MemoryCategory::params, of, DType::bf16);
      };
      const StateSpaceInput input = scan_tensors(shape, make).input(shape);
      const Tensor y = state_space_forward(*runtime, shape, input);
      state_space_backward(*runtime, shape, input, y, scan_tensors(shape, make).input(shape));
    }
    CHECK(real.ops().size() == 2);
    CHECK(real.record() == meta.record());
  }
}

TEST_CASE("M4: work and memory of the selective scan are those of the formulas") {
  // Nemotron 3 Nano's heads; two whole chunks in each of two samples.
  const StateSpaceShape shape{.batch = 2,
                              .seq_len = 256,
                              .num_heads = 64,
                              .head_size = 64,
                              .num_groups = 8,
                              .state_size = 128};
  RecordingRuntime meta(false);
  const auto make = [&](const char*, const Shape& of) {
    return meta.allocate(MemoryCategory::params, of, DType::bf16);
  };
  const StateSpaceInput input = scan_tensors(shape, make).input(shape);
  const Tensor y = state_space_forward(meta, shape, input);
  const std::int64_t tokens = 512;
  const std::int64_t kept = 2 * tokens * 4096;
  CHECK(meta.activation_bytes() == kept);
  CHECK(meta.ops()[0].kind == ComputeKind::matmul);
  CHECK(meta.ops()[0].flops == tokens * (2 * 128 * 8 * 128 + 64 * (2 * 128 * 64 + 4 * 128 * 64)));
  const std::int64_t states = 4LL * 2 * 2 * 64 * 64 * 128;
  const std::int64_t passed = states / 2;  // In bf16.
  const std::int64_t rest = 4 * (2 * tokens * 64 + tokens * 8 * 128);
  const std::int64_t columns = 2 * tokens * (4096 + 2 * 1024 + 64);
  const std::int64_t vectors = 2 * 3 * 64;
  CHECK(meta.ops()[0].bytes == columns + vectors + kept + 2 * (states + passed + rest));
  CHECK(meta.activation_bytes_at()[0] == kept + states + passed + rest);
  state_space_backward(meta, shape, input, y, scan_tensors(shape, make).input(shape));
  CHECK(meta.ops()[1].flops == tokens * (6 * 128 * 8 * 128 + 64 * (4 * 128 * 64 + 10 * 128 * 64)));
  CHECK(meta.ops()[1].bytes == 2 * columns + 3 * vectors + kept + 8 * states + 4 * rest);
  CHECK(meta.activation_bytes_at()[1] == kept + 2 * (states + rest));
  CHECK(meta.activation_bytes() == kept);
}

TEST_CASE("the last chunk of the selective scan counts its own length") {
  RecordingRuntime meta(false);
  const StateSpaceShape shape = scan_shape(7, 4);
  const auto make = [&](const char*, const Shape& of) {
    return meta.allocate(MemoryCategory::params, of, DType::bf16);
  };
  (void)state_space_forward(meta, shape, scan_tensors(shape, make).input(shape));
  CHECK(meta.ops()[0].flops == 2 * ((16 + 9) * (2 * 2 * 3 + 2 * 4 * 2) + 7 * 4 * 4 * 2 * 3));
}

TEST_CASE("the selective scan refuses sizes that do not fit") {
  const StateSpaceShape shape = scan_shape(7, 4);
  const StateSpaceInput input = random_scan(shape).input(shape);
  const auto forward = [](const StateSpaceShape& of, const StateSpaceInput& with) {
    (void)state_space_forward(scan_runtime, of, with);
  };
  StateSpaceShape odd = shape;
  odd.num_groups = 3;
  CHECK_THROWS_AS(forward(odd, input), UsageError);
  StateSpaceInput wrong = input;
  wrong.b.count = 5;
  CHECK_THROWS_AS(forward(shape, wrong), UsageError);
  wrong = input;
  wrong.dt.first = 4;  // Its columns would end behind the tensor's.
  CHECK_THROWS_AS(forward(shape, wrong), UsageError);
  wrong = input;
  wrong.d_skip = zeros({3});
  CHECK_THROWS_AS(forward(shape, wrong), UsageError);
}

}  // namespace shardsim::test
