#include "strategies/model/delta_rule.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// M10 for gated DeltaNet: chunks against the recurrence as the paper writes it; gradients against
// difference quotients; work and memory against their formulas.
namespace shardsim::test {
namespace {

LocalRuntime delta_runtime;

// Queries, keys and values in one tensor, gates in another, behind two columns of something else.
struct DeltaTensors {
  Tensor qkv;
  Tensor gates;
  Tensor a_log;
  Tensor dt_bias;

  [[nodiscard]] DeltaRuleInput input(const DeltaRuleShape& shape) const {
    const std::int64_t k = shape.k_row();
    const std::int64_t heads = shape.value_heads;
    return {{qkv, 0, k},
            {qkv, k, k},
            {qkv, 2 * k, shape.v_row()},
            {gates, 2, heads},
            {gates, 2 + heads, heads},
            a_log,
            dt_bias};
  }
};

template <class Make>
DeltaTensors delta_tensors(const DeltaRuleShape& shape, Make&& make) {
  const std::int64_t heads = shape.value_heads;
  return {make("qkv", Shape{shape.batch, shape.seq_len, 2 * shape.k_row() + shape.v_row()}),
          make("gates", Shape{shape.batch, shape.seq_len, 2 + 2 * heads}),
          make("A_log", Shape{heads}), make("dt_bias", Shape{heads})};
}

DeltaTensors random_delta_tensors(const DeltaRuleShape& shape) {
  return delta_tensors(shape,
                       [](const char* name, const Shape& of) { return random_tensor(name, of); });
}

DeltaRuleShape delta_shape(std::int64_t s, std::int64_t chunk) {
  return {.batch = 2,
          .seq_len = s,
          .key_heads = 2,
          .value_heads = 4,
          .key_size = 3,
          .value_size = 2,
          .chunk = chunk};
}

using DeltaNumbers = std::vector<double>;

DeltaNumbers unit_key(const Columns& x, std::int64_t row, std::int64_t first, std::int64_t size) {
  DeltaNumbers values;
  double squares = 1e-6;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(x.get(row, first + i));
    squares += values.back() * values.back();
  }
  for (double& value : values) value /= std::sqrt(squares);
  return values;
}

// One head of one sample, position by position.
void recur_delta_head(const DeltaRuleShape& shape, const DeltaRuleInput& input,
                      std::int64_t first_row, std::int64_t head, const Tensor& o) {
  const std::int64_t d_k = shape.key_size;
  const std::int64_t d_v = shape.value_size;
  const std::int64_t key = head / (shape.value_heads / shape.key_heads) * d_k;
  DeltaNumbers state(to_size(d_k * d_v));
  for (std::int64_t row = first_row; row < first_row + shape.seq_len; ++row) {
    const DeltaNumbers q = unit_key(input.q, row, key, d_k);
    const DeltaNumbers k = unit_key(input.k, row, key, d_k);
    const double step = std::log(1.0 + std::exp(input.a.get(row, head) + input.dt_bias.get(head)));
    const double decay = std::exp(-std::exp(input.a_log.get(head)) * step);
    const double beta = 1.0 / (1.0 + std::exp(-input.beta.get(row, head)));
    for (double& value : state) value *= decay;
    for (std::int64_t j = 0; j < d_v; ++j) {
      double told = 0.0;
      for (std::int64_t i = 0; i < d_k; ++i) told += state[to_size(i * d_v + j)] * k[to_size(i)];
      const double delta = (input.v.get(row, head * d_v + j) - told) * beta;
      double sum = 0.0;
      for (std::int64_t i = 0; i < d_k; ++i) {
        double& entry = state[to_size(i * d_v + j)];
        entry += k[to_size(i)] * delta;
        sum += entry * q[to_size(i)] / std::sqrt(static_cast<double>(d_k));
      }
      o.set(row * shape.v_row() + head * d_v + j, sum);
    }
  }
}

Tensor delta_recurrence(const DeltaRuleShape& shape, const DeltaRuleInput& input) {
  const Tensor o = zeros({shape.batch, shape.seq_len, shape.v_row()});
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.value_heads; ++head) {
      recur_delta_head(shape, input, sample * shape.seq_len, head, o);
    }
  }
  return o;
}

DeltaTensors zero_delta_gradients(const DeltaRuleShape& shape) {
  return delta_tensors(shape, [](const char*, const Shape& of) { return zeros(of); });
}

}  // namespace

TEST_CASE("M10: the gated delta rule in chunks is the recurrence, for any chunk") {
  for (const std::int64_t s : {1, 7, 8, 13}) {
    for (const std::int64_t chunk : {1, 2, 3, 4, 7, 8, 64}) {
      CAPTURE(s, chunk);
      const DeltaRuleShape shape = delta_shape(s, chunk);
      const DeltaRuleInput input = random_delta_tensors(shape).input(shape);
      // Some hundred roundings of numbers of order one. A wrong term shows as 1e-2.
      CHECK(max_difference(delta_rule_forward(delta_runtime, shape, input).o,
                           delta_recurrence(shape, input)) < 1e-12);
    }
  }
}

TEST_CASE("decays so strong that they vanish leave each position to itself") {
  const DeltaRuleShape shape = delta_shape(9, 4);
  const DeltaTensors tensors = random_delta_tensors(shape);
  for (std::int64_t head = 0; head < 4; ++head) tensors.dt_bias.set(head, 600.0);
  const DeltaRuleInput input = tensors.input(shape);
  const DeltaRuleOutput out = delta_rule_forward(delta_runtime, shape, input);
  for (std::int64_t i = 0; i < out.o.numel(); ++i) REQUIRE(std::isfinite(out.o.get(i)));
  for (std::int64_t head = 0; head < 4; ++head) tensors.dt_bias.set(head, 300.0);
  // e^-100 and less: far below what is compared.
  CHECK(max_difference(delta_rule_forward(delta_runtime, shape, input).o, out.o) < 1e-12);
}

TEST_CASE("gated delta rule: gradients of columns, A_log and dt_bias") {
  for (const std::int64_t chunk : {3, 64}) {
    CAPTURE(chunk);
    const DeltaRuleShape shape = delta_shape(7, chunk);
    const DeltaTensors tensors = random_delta_tensors(shape);
    const DeltaRuleInput input = tensors.input(shape);
    const Tensor d_o = random_tensor("do", {2, 7, shape.v_row()});
    const auto forward = [&] { return delta_rule_forward(delta_runtime, shape, input); };
    const auto value = [&] { return dot(forward().o, d_o); };
    const DeltaTensors gradient = delta_tensors(
        shape, [](const char*, const Shape& of) { return random_tensor("before", of); });
    const Tensor gates_before = copy_of(gradient.gates);
    const Tensor before = copy_of(gradient.a_log);  // That of dt_bias, too.
    delta_rule_backward(delta_runtime, shape, input, forward(), d_o, gradient.input(shape));
    // Quotients are wrong by 1e-12 / 30 times a fifth derivative, of some thousands at most.
    CHECK(max_difference(gradient.qkv, numeric_gradient(tensors.qkv, value)) < 1e-8);
    const Tensor d_gates = numeric_gradient(tensors.gates, value);
    for (std::int64_t row = 0; row < 14; ++row) {  // The columns of something else stay.
      for (std::int64_t i = 0; i < 2; ++i)
        d_gates.set(row * 10 + i, gates_before.get(row * 10 + i));
    }
    CHECK(max_difference(gradient.gates, d_gates) < 1e-8);
    const auto with_a_log = [&] { return value() + dot(tensors.a_log, before); };
    CHECK(max_difference(gradient.a_log, numeric_gradient(tensors.a_log, with_a_log)) < 1e-8);
    const auto with_bias = [&] { return value() + dot(tensors.dt_bias, before); };
    CHECK(max_difference(gradient.dt_bias, numeric_gradient(tensors.dt_bias, with_bias)) < 1e-8);
  }
}

TEST_CASE("M10: gradients of the gated delta rule do not depend on the chunk") {
  const DeltaRuleShape first = delta_shape(13, 1);
  const DeltaRuleInput input = random_delta_tensors(first).input(first);
  const Tensor d_o = random_tensor("do", {2, 13, first.v_row()});
  const auto gradient = [&](const DeltaRuleShape& shape) {
    const DeltaTensors of = zero_delta_gradients(shape);
    const DeltaRuleOutput out = delta_rule_forward(delta_runtime, shape, input);
    delta_rule_backward(delta_runtime, shape, input, out, d_o, of.input(shape));
    return of;
  };
  const DeltaTensors expected = gradient(first);
  for (const std::int64_t chunk : {2, 5, 8, 13, 64}) {
    CAPTURE(chunk);
    const DeltaTensors actual = gradient(delta_shape(13, chunk));
    // Some thousand roundings of numbers of order one.
    CHECK(max_difference(actual.qkv, expected.qkv) < 1e-12);
    CHECK(max_difference(actual.gates, expected.gates) < 1e-12);
    CHECK(max_difference(actual.a_log, expected.a_log) < 1e-12);
    CHECK(max_difference(actual.dt_bias, expected.dt_bias) < 1e-12);
  }
}

TEST_CASE("M3: the gated delta rule asks for the same with and without data") {
  for (const std::int64_t chunk : {3, 64}) {
    RecordingRuntime real(true);
    RecordingRuntime meta(false);
    for (RecordingRuntime* const runtime : {&real, &meta}) {
      const DeltaRuleShape shape = delta_shape(7, chunk);
      const auto make = [&](const char*, const Shape& of) {
        return runtime->allocate(MemoryCategory::params, of, DType::bf16);
      };
      const DeltaRuleInput input = delta_tensors(shape, make).input(shape);
      const DeltaRuleOutput out = delta_rule_forward(*runtime, shape, input);
      delta_rule_backward(*runtime, shape, input, out, out.o,
                          delta_tensors(shape, make).input(shape));
    }
    CHECK(real.ops().size() == 2);
    CHECK(real.record() == meta.record());
  }
}

TEST_CASE("M4: work and memory of the gated delta rule are those of the formulas") {
  // Qwen3-Next's heads; two whole chunks in each of two samples.
  const DeltaRuleShape shape{.batch = 2,
                             .seq_len = 128,
                             .key_heads = 16,
                             .value_heads = 32,
                             .key_size = 128,
                             .value_size = 128};
  RecordingRuntime meta(false);
  const auto make = [&](const char*, const Shape& of) {
    return meta.allocate(MemoryCategory::params, of, DType::bf16);
  };
  const DeltaRuleInput input = delta_tensors(shape, make).input(shape);
  const DeltaRuleOutput out = delta_rule_forward(meta, shape, input);
  const std::int64_t tokens = 256;
  const std::int64_t heads = tokens * 32;
  const std::int64_t states = 2 * 2 * 32 * 128 * 128;
  const std::int64_t kept = 2 * heads * (128 + 64) + 4 * heads;  // o, X; sums of g in fp32.
  CHECK(out.sums.dtype() == DType::fp32);
  CHECK(meta.activation_bytes() == kept);
  CHECK(meta.ops()[0].kind == ComputeKind::matmul);
  CHECK(meta.ops()[0].flops ==
        heads * (64 * (6 * 128 + 4 * 128) + 6 * 128 * 128) + heads * 64 * 64 / 3);
  const std::int64_t between = 2 * (heads * 3 * 128 + states);
  const std::int64_t columns = 2 * (tokens * 2 * 2048 + heads * 128 + 2 * heads);
  const std::int64_t vectors = 2 * 2 * 32;
  CHECK(meta.ops()[0].bytes == columns + vectors + kept + 2 * between);
  CHECK(meta.activation_bytes_at()[0] == kept + between);
  delta_rule_backward(meta, shape, input, out, out.o, delta_tensors(shape, make).input(shape));
  CHECK(meta.ops()[1].flops == 2 * heads * (64 * (6 * 128 + 4 * 128) + 6 * 128 * 128) +
                                   2 * heads * 64 * 64 / 3 +
                                   heads * (2 * 64 * (128 + 128) + 4 * 128 * 128));
  CHECK(meta.ops()[1].bytes == 2 * columns + 3 * vectors + kept + 4 * between);
  CHECK(meta.activation_bytes_at()[1] == kept + 2 * between);
  CHECK(meta.activation_bytes() == kept);
}

TEST_CASE("the last chunk of the gated delta rule counts its own length") {
  RecordingRuntime meta(false);
  const DeltaRuleShape shape = delta_shape(7, 4);
  const auto make = [&](const char*, const Shape& of) {
    return meta.allocate(MemoryCategory::params, of, DType::bf16);
  };
  const DeltaRuleOutput out =
      delta_rule_forward(meta, shape, delta_tensors(shape, make).input(shape));
  CHECK(meta.ops()[0].flops ==
        8 * ((16 + 9) * (6 * 3 + 4 * 2) + 7 * 6 * 3 * 2) + 8 * (64 + 27) / 3);
  CHECK(out.inverse.shape() == Shape{2, 7, 4 * 4});
  const DeltaRuleShape longer = delta_shape(7, 64);  // X is no wider than a sample is long.
  CHECK(
      delta_rule_forward(meta, longer, delta_tensors(longer, make).input(longer)).inverse.shape() ==
      Shape{2, 7, 4 * 7});
}

TEST_CASE("results of the gated delta rule in fp32 are those in fp64, rounded") {
  const DeltaRuleShape shape = delta_shape(13, 4);
  const DeltaTensors wide = random_delta_tensors(shape);
  const auto narrow = [](const Tensor& tensor) {
    return tensor_of(tensor.shape(), values_of(tensor), DType::fp32);
  };
  const DeltaTensors tensors{narrow(wide.qkv), narrow(wide.gates), narrow(wide.a_log),
                             narrow(wide.dt_bias)};
  const DeltaRuleOutput out = delta_rule_forward(delta_runtime, shape, tensors.input(shape));
  CHECK(out.o.dtype() == DType::fp32);
  CHECK(out.inverse.dtype() == DType::fp32);
  const Tensor expected = delta_recurrence(shape, wide.input(shape));
  // 2^-24 of inputs, and of sums of g of at most a hundred.
  CHECK(max_difference(out.o, expected) < 1e-5);
  CHECK(max_difference(out.o, expected) > 1e-9);
}

TEST_CASE("the gated delta rule refuses sizes that do not fit") {
  const DeltaRuleShape shape = delta_shape(7, 4);
  const DeltaRuleInput input = random_delta_tensors(shape).input(shape);
  const auto forward = [](const DeltaRuleShape& of, const DeltaRuleInput& with) {
    (void)delta_rule_forward(delta_runtime, of, with);
  };
  DeltaRuleShape odd = shape;
  odd.key_heads = 3;
  CHECK_THROWS_AS(forward(odd, input), UsageError);
  DeltaRuleInput wrong = input;
  wrong.beta.count = 3;
  CHECK_THROWS_AS(forward(shape, wrong), UsageError);
  wrong = input;
  wrong.a.first = 8;  // Its columns would end behind the tensor's.
  CHECK_THROWS_AS(forward(shape, wrong), UsageError);
  wrong = input;
  wrong.a_log = zeros({3});
  CHECK_THROWS_AS(forward(shape, wrong), UsageError);
}

}  // namespace shardsim::test
