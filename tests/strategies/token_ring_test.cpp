#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/overlapped_linear.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/strategies/tensor_parallel_cases.hpp"

// K12: products of a tensor-parallel region under the traffic of its tokens. Values are those of an
// all_gather and a reduce_scatter, as many bytes are sent, and what shows is the first part and
// what a product does not cover.
namespace shardsim::test {
namespace {

constexpr int kRingRanks = 4;
constexpr std::int64_t kRingShard = 64;  // Rows of a rank.
constexpr std::int64_t kRingHidden = 256;
constexpr std::int64_t kRingInner = 512;  // Each rank's.
constexpr double kRingElement = 8.0;      // fp64

// A weight, and nothing else: [n, k].
class OneMatrix final : public Parameters {
 public:
  OneMatrix(Runtime& runtime, const Shape& shape, int rank)
      : weight_(runtime.allocate(MemoryCategory::params, shape, DType::fp64)),
        gradient_(runtime.allocate(MemoryCategory::grads, shape, DType::fp64)) {
    for (std::int64_t i = 0; weight_.has_data() && i < weight_.numel(); ++i) {
      weight_.set(i, static_cast<double>((i * 7 + rank) % 5 - 2));
    }
  }
  Tensor weight(int) override { return weight_; }
  Tensor gradient(int) override { return gradient_; }
  void gradient_ready(int) override {}

 private:
  Tensor weight_;
  Tensor gradient_;
};

Tensor whole_numbers(Runtime& runtime, const Shape& shape, int rank) {
  Tensor tensor = runtime.allocate(MemoryCategory::activations, shape, DType::fp64);
  for (std::int64_t i = 0; tensor.has_data() && i < tensor.numel(); ++i) {
    tensor.set(i, static_cast<double>((i * 3 + rank) % 7 - 3));
  }
  return tensor;
}

enum class Border { column, row, row_backward };

struct BorderRun {
  std::vector<std::vector<double>> results;  // By rank.
  double seconds = 0.0;
  std::int64_t bytes_sent = 0;
};

// One border of a region on all ranks. A link of `gb_per_s` between any two.
BorderRun run_border(Border border, bool overlaps, bool has_data, double gb_per_s) {
  FiberOptions options;
  options.has_data = has_data;
  options.cluster = test_cluster(kRingRanks);
  options.cluster.intra_node = {.bytes_per_s = gb_per_s * 1e9, .latency_s = 1e-6};
  FiberWorld world(options);
  BorderRun found;
  found.results.resize(kRingRanks);
  world.run([&](Runtime& runtime, Communicator& group) {
    const int rank = group.rank();
    TensorParallel parallel(group, /*sequence_parallel=*/true, overlaps);
    const bool is_row = border != Border::column;
    OneMatrix weights(
        runtime, is_row ? Shape{kRingHidden, kRingInner} : Shape{kRingInner, kRingHidden}, rank);
    const Pass pass{{runtime, weights, {.tensor = &parallel}}, 0, kRingRanks * kRingShard};
    Tensor result;
    if (border == Border::column) {
      const Tensor x = whole_numbers(runtime, {kRingShard, kRingHidden}, rank);
      result = apply_linear(pass, 0, enter_region_by_shard(pass, x, "column"));
    } else {
      const Tensor x = whole_numbers(runtime, {1, kRingRanks * kRingShard, kRingInner}, rank);
      if (border == Border::row) {
        parallel.begin_region("row");
        result = apply_row_linear(pass, 0, /*has_bias=*/false, x, "row");
      } else {
        const Tensor dy = whole_numbers(runtime, {kRingShard, kRingHidden}, rank);
        result = backward_row_linear(pass, 0, /*has_bias=*/false, dy, x, "row");
      }
    }
    if (has_data) {
      found.results[to_size(rank)].resize(to_size(result.numel()));
      load(result, found.results[to_size(rank)]);
    }
  });
  for (int rank = 0; rank < kRingRanks; ++rank) {
    found.seconds = std::max(found.seconds, world.engine().rank(rank).now().seconds());
  }
  for (const std::int64_t sent : world.sent_by_rank()) found.bytes_sent += sent;
  return found;
}

}  // namespace

TEST_CASE("K12: products under the traffic of tokens give the same numbers for the same bytes") {
  for (const Border border : {Border::column, Border::row, Border::row_backward}) {
    CAPTURE(static_cast<int>(border));
    const BorderRun at_once = run_border(border, false, true, 100.0);
    const BorderRun round = run_border(border, true, true, 100.0);
    CHECK((round.results == at_once.results));  // Whole numbers: sums are exact in any order.
    CHECK(round.bytes_sent == at_once.bytes_sent);
    CHECK(round.bytes_sent == kRingRanks * (kRingRanks - 1) * kRingShard * kRingHidden * 8);
  }
}

TEST_CASE("K12: what shows is the first part, and what products do not cover") {
  const Device device = test_cluster(kRingRanks).device;
  const double flops = 2.0 * kRingShard * kRingHidden * kRingInner;
  const double product = flops / device.peak_flops_per_s[0];  // A shard's; arithmetic bounds it.
  const double adding = 3.0 * kRingShard * kRingHidden * kRingElement / device.memory_bytes_per_s;
  for (const double gb_per_s : {0.2, 5.0, 100.0, 1000.0}) {
    CAPTURE(gb_per_s);
    const double hop = 1e-6 + kRingShard * kRingHidden * kRingElement / (gb_per_s * 1e9);
    const double uncovered = std::max(hop - product, 0.0);
    const auto seconds = [&](Border border) {
      return run_border(border, true, false, gb_per_s).seconds;
    };
    // Products of all shards; each but the first may wait for its own.
    CHECK(seconds(Border::column) ==
          Approx(kRingRanks * product + (kRingRanks - 1) * uncovered).epsilon(1e-9));
    // Each hop is under the next product, and what came is then added.
    CHECK(seconds(Border::row) ==
          Approx(kRingRanks * product + (kRingRanks - 1) * (uncovered + adding)).epsilon(1e-9));
    // The weight's gradient comes behind: as much arithmetic as all shards' products.
    CHECK(seconds(Border::row_backward) ==
          Approx(2 * kRingRanks * product + (kRingRanks - 1) * uncovered).epsilon(1e-9));
  }
}

}  // namespace shardsim::test
