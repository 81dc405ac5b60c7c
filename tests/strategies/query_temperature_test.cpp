#include "strategies/model/query_temperature.hpp"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Queries that grow with their position.
using namespace shardsim;

TEST_CASE("the factor of a query grows once in every run of positions") {
  const QueryTemperature temperature{0.5, 4};
  // Positions 0 to 2 are before the end of the first run of 4, position 3 is at it.
  for (const std::int64_t position : {0, 1, 2}) CHECK(temperature.factor(position) == 1.0);
  for (const std::int64_t position : {3, 4, 5, 6}) {
    CHECK(temperature.factor(position) == Approx(1.0 + 0.5 * std::log(2.0)).epsilon(1e-15));
  }
  CHECK(temperature.factor(7) == Approx(1.0 + 0.5 * std::log(3.0)).epsilon(1e-15));
  // Llama 4's first token that is not as before.
  CHECK(QueryTemperature{0.1, 8192}.factor(8190) == 1.0);
  CHECK(QueryTemperature{0.1, 8192}.factor(8191) > 1.0);
}

TEST_CASE("queries of a share are multiplied by the factors of their positions in the sample") {
  constexpr std::int64_t kLength = 12;
  constexpr std::int64_t kWidth = 3;
  const QueryTemperature temperature{0.5, 2};
  LocalRuntime runtime;
  const Tensor whole = test::random_tensor("queries", {2, kLength, kWidth});
  const Tensor expected = test::copy_of(whole);
  for (std::int64_t row = 0; row < num_rows(whole); ++row) {
    const double factor = 1.0 + 0.5 * std::log(1.0 + std::floor((row % kLength + 1.0) / 2.0));
    for (std::int64_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
      expected.set(i, whole.get(i) * factor);
    }
  }
  for (const int parts : {1, 2, 3}) {
    for (int index = 0; index < parts; ++index) {
      const SequencePart part{index, parts};
      const std::int64_t own = part.length(kLength);
      const auto take = [&](const Tensor& from) {
        const Tensor share = test::zeros({2, own, kWidth});
        for (std::int64_t i = 0; i < share.numel(); ++i) {
          share.set(i, from.get(part.token_of(i / kWidth, kLength) * kWidth + i % kWidth));
        }
        return share;
      };
      const Tensor q = take(whole);
      query_temperature_forward(runtime, q, temperature, part);
      CHECK(test::max_difference(q, take(expected)) < 1e-15);
      const Tensor dq = take(whole);  // Each factor is its own transpose.
      query_temperature_backward(runtime, dq, temperature, part);
      CHECK(test::max_difference(dq, q) == 0.0);
      if (parts == 1) continue;
      const Tensor local = take(whole);  // Positions counted in the share alone are other ones.
      query_temperature_forward(runtime, local, temperature, {0, 1});
      CHECK(test::max_difference(local, q) > 1e-3);
    }
  }
}

TEST_CASE("growing queries are read and written once, in each direction, and nothing is kept") {
  for (const bool has_data : {false, true}) {
    test::RecordingRuntime runtime(has_data);
    const Tensor q = runtime.allocate(MemoryCategory::activations, {2, 6, 8}, DType::bf16);
    const std::int64_t held = runtime.activation_bytes();
    query_temperature_forward(runtime, q, {0.1, 4}, {});
    query_temperature_backward(runtime, q, {0.1, 4}, {});
    REQUIRE(runtime.ops().size() == 2);
    for (const ComputeOp& op : runtime.ops()) {
      CHECK(op.bytes == 2 * 2 * 6 * 8 * 2);
      CHECK(op.flops == 0);
    }
    CHECK(runtime.activation_bytes() == held);
  }
}
