#include "tests/backends/definitions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "tests/backends/all_backends.hpp"

// P1 and P2: every collective is its sequential definition, bit by bit, and what is composed of
// others equals the composition.
namespace shardsim {
namespace {

using definitions::cut;
using definitions::Definitions;
using definitions::kDTypes;
using definitions::kOps;
using definitions::offset_of;
using definitions::same_bits;

constexpr ReductionOrder kOrders[] = {ReductionOrder::rank, ReductionOrder::wire};

// Any bits that a dtype has, from large to small, no two ranks alike.
double random_value(const RandomStream& random, int rank, std::int64_t index) {
  const auto at = static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(index);
  return std::ldexp(2.0 * random.uniform(at) - 1.0, static_cast<int>(at * 7 % 9) - 4);
}

// The sum over `size` ranks, once in one call and once in two halves, compared on every rank.
double reduce_in_halves(int size, std::int64_t count, DType dtype, ReduceOp op,
                        ReductionOrder order) {
  const RandomStream random(11, "halves");
  double sum_of_all = 0.0;
  run_ranks(size,
            [&](Runtime& runtime, Communicator& world) {
              const auto mine = [&](std::int64_t i) {
                return random_value(random, world.rank(), i);
              };
              const Tensor once = filled(runtime, count, dtype, mine);
              world.all_reduce(once, op).wait();
              const std::vector<std::int64_t> chunks = cut(count, size);
              const Tensor halves = filled(runtime, count, dtype, mine);
              const Tensor part = halves.view(offset_of(chunks, world.rank()),
                                              {chunks[static_cast<std::size_t>(world.rank())]});
              world.reduce_scatter(part, halves, op, {.counts = chunks}).wait();
              world.all_gather(halves, part, {.counts = chunks}).wait();
              REQUIRE(same_bits(once, halves));
              for (std::int64_t i = 0; world.rank() == 0 && i < count; ++i)
                sum_of_all += once.get(i);
            },
            // A tree adds in an order of its own.
            {.reduction_order = order, .all_reduce_algorithm = Algorithm::ring});
  return sum_of_all;
}

}  // namespace

TEST_CASE("P1: every operation is its definition: all dtypes, reductions, roots and counts") {
  for (const ReductionOrder order : kOrders) {
    for (const int size : {1, 2, 3, 5, 8}) {
      for (const DType dtype : kDTypes) {
        for (const std::int64_t count : {0, 1, size - 1, 2 * size + 1, 3 * size}) {
          INFO(size << " ranks, " << name_of(dtype) << " x " << count);
          const auto body = [&](Runtime& runtime, Communicator& world) {
            Definitions definitions(runtime, world, dtype, count);
            for (const ReduceOp op : kOps) definitions.check_reductions(op);
            definitions.check_moves();
            definitions.check_all_to_all();
          };
          run_ranks(size, body, {.reduction_order = order});
          if (order == ReductionOrder::rank) continue;
          run_message_ranks(size, body);
          run_nccl_ranks(size, body);
        }
      }
    }
  }
}

TEST_CASE("P2: all_reduce is all_gather after reduce_scatter to the bit, in either order of sums") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const int size : {1, 2, 3, 7, 8}) {
      for (const std::int64_t count : {1, 5, 29, 64}) {
        for (const ReduceOp op : kOps) {
          for (const ReductionOrder order : kOrders) {
            reduce_in_halves(size, count, dtype, op, order);
          }
        }
      }
    }
    // Values whose sum depends on the order: exact ones would prove nothing.
    CHECK(reduce_in_halves(7, 64, dtype, ReduceOp::sum, ReductionOrder::rank) !=
          reduce_in_halves(7, 64, dtype, ReduceOp::sum, ReductionOrder::wire));
  }
}

TEST_CASE("P2: all_to_all twice, scatter after gather and gather after scatter change no bit") {
  const RandomStream random(12, "moves");
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    for (const int size : {1, 2, 5, 8}) {
      run_on_all(size, [&](Runtime& runtime, Communicator& world) {
        const auto make = [&](std::int64_t count) {
          return filled(runtime, count, dtype,
                        [&](std::int64_t i) { return random_value(random, world.rank(), i); });
        };
        const auto empty = [&](std::int64_t count) {
          return runtime.allocate(MemoryCategory::comm, {count}, dtype);
        };
        const Tensor there = empty(3 * size);
        const Tensor back = empty(3 * size);
        world.all_to_all(there, make(3 * size), {}, {}).wait();
        REQUIRE((size == 1 || !same_bits(there, make(3 * size))));
        world.all_to_all(back, there, {}, {}).wait();
        REQUIRE(same_bits(back, make(3 * size)));

        const std::vector<std::int64_t> chunks = cut(2 * size + 1, size);
        const CallOptions uneven{.counts = chunks};
        const std::int64_t own = chunks[static_cast<std::size_t>(world.rank())];
        for (int root = 0; root < size; ++root) {
          const Tensor whole = empty(2 * size + 1);
          const Tensor part = empty(own);
          world.gather(whole, make(own), root, uneven).wait();
          world.scatter(part, whole, root, uneven).wait();
          REQUIRE(same_bits(part, make(own)));
          world.scatter(part, make(2 * size + 1), root, uneven).wait();
          world.gather(whole, part, root, uneven).wait();
          if (world.rank() == root) REQUIRE(same_bits(whole, make(2 * size + 1)));
        }
      });
    }
  }
}

}  // namespace shardsim
