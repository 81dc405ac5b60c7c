#include "strategies/model/gated_norm.hpp"

#include <cmath>
#include <cstdint>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Gated norms behind linear attention: by their definition, and their gradients.
namespace shardsim::test {
namespace {

LocalRuntime gated_norm_runtime;

constexpr std::int64_t kGatedRows = 4;
constexpr std::int64_t kGatedColumns = 6;
constexpr std::int64_t kGatedPart = 3;

// Gated DeltaNet's, with a weight per element of a head, and Mamba-2's, with one per column.
GatedNorm random_gated_norm(bool gate_first) {
  return {random_tensor("weight", {gate_first ? kGatedColumns : kGatedPart}), kGatedPart, 1e-3,
          gate_first};
}

Columns gate_columns(const Tensor& wide) { return {wide, 1, kGatedColumns}; }

Tensor gated_norm_written_out(const GatedNorm& norm, const Tensor& o, const Columns& z) {
  const Tensor y = zeros(o.shape());
  for (std::int64_t row = 0; row < kGatedRows; ++row) {
    for (std::int64_t i = 0; i < kGatedColumns; ++i) {
      const auto silu_of = [&](std::int64_t column) {
        return z.get(row, column) / (1.0 + std::exp(-z.get(row, column)));
      };
      double squares = 0.0;
      for (std::int64_t j = i / kGatedPart * kGatedPart; j < (i / kGatedPart + 1) * kGatedPart;
           ++j) {
        const double x = o.get(row * kGatedColumns + j) * (norm.gate_first ? silu_of(j) : 1.0);
        squares += x * x / static_cast<double>(kGatedPart);
      }
      const double weight = norm.weight.get(norm.gate_first ? i : i % kGatedPart);
      y.set(row * kGatedColumns + i, o.get(row * kGatedColumns + i) * silu_of(i) * weight /
                                         std::sqrt(squares + norm.epsilon));
    }
  }
  return y;
}

}  // namespace

TEST_CASE("a gated norm is a root mean square, with the gate behind or ahead of it") {
  const Tensor o = random_tensor("o", {2, 2, kGatedColumns});
  const Columns z = gate_columns(random_tensor("z", {2, 2, 8}));
  for (const bool gate_first : {false, true}) {
    CAPTURE(gate_first);
    const GatedNorm norm = random_gated_norm(gate_first);
    const GatedNormOutput out = gated_norm_forward(gated_norm_runtime, norm, o, z);
    // A few roundings of numbers of order one.
    CHECK(max_difference(out.y, gated_norm_written_out(norm, o, z)) < 1e-14);
    CHECK(out.statistics.shape() == Shape{kGatedRows, kGatedColumns / kGatedPart});
  }
}

TEST_CASE("gated norm: gradients of input, gate and weight") {
  const Tensor o = random_tensor("o", {2, 2, kGatedColumns});
  const Tensor wide = random_tensor("z", {2, 2, 8});
  const Tensor dy = random_tensor("dy", {2, 2, kGatedColumns});
  for (const bool gate_first : {false, true}) {
    CAPTURE(gate_first);
    const GatedNorm norm = random_gated_norm(gate_first);
    const auto forward = [&] {
      return gated_norm_forward(gated_norm_runtime, norm, o, gate_columns(wide));
    };
    const auto value = [&] { return dot(forward().y, dy); };
    const Tensor d_wide = random_tensor("overwritten", wide.shape());
    const Tensor before = copy_of(d_wide);
    const Tensor dweight = random_tensor("dweight", norm.weight.shape());
    const Tensor weight_before = copy_of(dweight);
    const Tensor d_o = gated_norm_backward(gated_norm_runtime, norm, o, gate_columns(wide),
                                           forward().statistics, dy, gate_columns(d_wide), dweight);
    // Quotients are wrong by 1e-12 / 30 times a fifth derivative, of some thousands at most.
    CHECK(max_difference(d_o, numeric_gradient(o, value)) < 1e-8);
    const auto with_weight = [&] { return value() + dot(norm.weight, weight_before); };
    CHECK(max_difference(dweight, numeric_gradient(norm.weight, with_weight)) < 1e-8);
    const Tensor dz = numeric_gradient(wide, value);
    for (std::int64_t row = 0; row < kGatedRows;
         ++row) {  // Columns beside the gates stay as they are.
      dz.set(row * 8, before.get(row * 8));
      dz.set(row * 8 + 7, before.get(row * 8 + 7));
    }
    CHECK(max_difference(d_wide, dz) < 1e-8);
  }
}

TEST_CASE("a gated norm moves its bytes once, the same with and without data") {
  RecordingRuntime real(true);
  RecordingRuntime meta(false);
  for (RecordingRuntime* const runtime : {&real, &meta}) {
    const auto tensor = [&](const Shape& shape) {
      return runtime->allocate(MemoryCategory::params, shape, DType::bf16);
    };
    const GatedNorm norm{tensor({kGatedPart}), kGatedPart, 1e-6, false};
    const Tensor o = tensor({2, 2, kGatedColumns});
    const Columns z = gate_columns(tensor({2, 2, 8}));
    const GatedNormOutput out = gated_norm_forward(*runtime, norm, o, z);
    CHECK(out.statistics.dtype() == DType::fp32);
    (void)gated_norm_backward(*runtime, norm, o, z, out.statistics, out.y,
                              gate_columns(tensor({2, 2, 8})), tensor({kGatedPart}));
  }
  CHECK(real.record() == meta.record());
  REQUIRE(meta.ops().size() == 2);
  CHECK(meta.ops()[0].bytes == 2 * (3 * 24 + 3) + 4 * 8);
  CHECK(meta.ops()[0].shape.family == KernelFamily::norm);
  CHECK(meta.ops()[1].bytes == 2 * (5 * 24 + 3 + 2 * 3) + 4 * 8);
  CHECK(meta.ops()[1].shape.family == KernelFamily::norm_backward);
}

TEST_CASE("a gated norm refuses widths and weights that do not fit") {
  const Tensor o = zeros({2, 2, kGatedColumns});
  const Columns z = all_columns(zeros({2, 2, kGatedColumns}));
  const auto forward = [&](const GatedNorm& norm, const Columns& gates) {
    (void)gated_norm_forward(gated_norm_runtime, norm, o, gates);
  };
  CHECK_NOTHROW(forward({zeros({3}), 3, 1e-6}, z));
  CHECK_THROWS_AS(forward({zeros({4}), 4, 1e-6}, z), UsageError);
  CHECK_THROWS_AS(forward({zeros({2}), 3, 1e-6}, z), UsageError);
  CHECK_THROWS_AS(forward({zeros({3}), 3, 1e-6}, {z.tensor, 0, 3}), UsageError);
}

}  // namespace shardsim::test
