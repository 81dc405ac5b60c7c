#include "backends/scan.hpp"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/backends/all_backends.hpp"

// Prefix reductions, held against a loop over the members.
namespace shardsim {
namespace {

constexpr std::int64_t kElements = 7;

double term_of(int rank, std::int64_t i) { return 1.0 + (3 * rank + 5 * i) % 4; }

double apply(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::product:
      return a * b;
    default:
      return a + b;
  }
}

// Over members 0 to `last`.
double prefix_of(ReduceOp op, int last, std::int64_t i) {
  double value = term_of(0, i);
  for (int rank = 1; rank <= last; ++rank) value = apply(op, value, term_of(rank, i));
  return value;
}

Tensor own_terms(Runtime& runtime, int rank) {
  return filled(runtime, kElements, DType::fp64, [&](std::int64_t i) { return term_of(rank, i); });
}

}  // namespace

TEST_CASE("scans are prefixes of the members, on all backends, at all sizes, by every reduction") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    run_on_all(ranks, [](Runtime& runtime, Communicator& world) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
        const Tensor with_own = own_terms(runtime, world.rank());
        const Tensor before = own_terms(runtime, world.rank());
        inclusive_scan(world, runtime, with_own, op);
        exclusive_scan(world, runtime, before, op);
        for (std::int64_t i = 0; i < kElements; ++i) {
          CHECK(with_own.get(i) == prefix_of(op, world.rank(), i));
          const double wanted =
              world.rank() == 0 ? term_of(0, i) : prefix_of(op, world.rank() - 1, i);
          CHECK(before.get(i) == wanted);
        }
      }
    });
  }
}

TEST_CASE("a scan sends one buffer to each member that is 1, 2, 4, ... behind") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    FiberOptions options;
    options.cluster = test_cluster(ranks);
    FiberWorld world(options);
    world.run([](Runtime& runtime, Communicator& everyone) {
      inclusive_scan(everyone, runtime, own_terms(runtime, everyone.rank()), ReduceOp::sum);
    });
    std::int64_t messages = 0;
    for (int distance = 1; distance < ranks; distance *= 2) messages += ranks - distance;
    CHECK(world.total_traffic().payload_sent ==
          messages * kElements * std::int64_t{sizeof(double)});
  }
}

TEST_CASE("members that scan other sizes, or not at all, are found, and an average is refused") {
  CHECK(diagnosis_of(3, [](Runtime& runtime, Communicator& world) {
          const std::int64_t count = world.rank() == 1 ? 4 : 5;
          const Tensor row = filled(runtime, count, DType::fp64, [](std::int64_t) { return 1.0; });
          inclusive_scan(world, runtime, row, ReduceOp::sum);
        }).code == "P2P_TRUNC");
  const Diagnosis missing = diagnosis_of(3, [](Runtime& runtime, Communicator& world) {
    const Tensor row = own_terms(runtime, world.rank());
    if (world.rank() != 1) inclusive_scan(world, runtime, row, ReduceOp::sum, {.label = "offsets"});
  });
  CHECK(missing.to_text().find("offsets") != std::string::npos);
  run_ranks(2, [](Runtime& runtime, Communicator& world) {
    const Tensor row = own_terms(runtime, world.rank());
    CHECK_THROWS_AS(inclusive_scan(world, runtime, row, ReduceOp::avg), UsageError);
  });
}

}  // namespace shardsim
