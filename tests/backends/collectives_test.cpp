#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/all_backends.hpp"
#include "tests/backends/definitions.hpp"

// Every collective against its definition, for all group sizes, element types and awkward sizes.
// Integer values make every sum exact, so results are compared with ==.
namespace shardsim {
namespace {

using definitions::kDTypes;

// A small whole number that differs between ranks and elements.
double element(int rank, std::int64_t index) {
  return static_cast<double>((rank * 5 + index * 3) % 11 - 4);
}

double reduced(ReduceOp op, int size, std::int64_t index) {
  double result = element(0, index);
  for (int rank = 1; rank < size; ++rank) {
    const double value = element(rank, index);
    if (op == ReduceOp::sum || op == ReduceOp::avg) result += value;
    if (op == ReduceOp::min) result = std::min(result, value);
    if (op == ReduceOp::max) result = std::max(result, value);
    if (op == ReduceOp::product) result *= value;
  }
  return op == ReduceOp::avg ? result / size : result;
}

}  // namespace

TEST_CASE("P1: all_reduce gives every rank the reduction, for all sizes, dtypes and operations") {
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 9}) {
    for (const std::int64_t count : {0, 1, 3, 8, 17}) {
      for (const DType dtype : kDTypes) {
        for (const ReduceOp op :
             {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product, ReduceOp::avg}) {
          if (op == ReduceOp::avg && size != 2 && size != 4 && size != 8) continue;  // Not exact.
          if (op == ReduceOp::avg && !is_floating(dtype)) continue;
          if (op == ReduceOp::product && size > 3) continue;  // Leaves the range of int8.
          run_on_all(size, [&](Runtime& runtime, Communicator& world) {
            const Tensor buffer = filled(runtime, count, dtype,
                                         [&](std::int64_t i) { return element(world.rank(), i); });
            world.all_reduce(buffer, op).wait();
            for (std::int64_t i = 0; i < count; ++i) {
              REQUIRE(buffer.get(i) == reduced(op, size, i));
            }
          });
        }
      }
    }
  }
}

TEST_CASE("P1: integer averages truncate and int64 sums are exact beyond 2^53") {
  run_on_all(2, [](Runtime& runtime, Communicator& world) {
    const Tensor average = filled(runtime, 1, DType::int32,
                                  [&](std::int64_t) { return world.rank() == 0 ? -3.0 : -4.0; });
    world.all_reduce(average, ReduceOp::avg).wait();
    CHECK(average.get(0) == -3.0);
    const Tensor large = runtime.allocate(MemoryCategory::comm, {1}, DType::int64);
    const std::int64_t value = (std::int64_t{1} << 60) + world.rank();
    std::memcpy(large.data(), &value, sizeof(value));
    world.all_reduce(large, ReduceOp::sum).wait();
    std::int64_t sum = 0;
    std::memcpy(&sum, large.data(), sizeof(sum));
    CHECK(sum == (std::int64_t{1} << 61) + 1);
  });
}

TEST_CASE("P1, P2: reduce_scatter and all_gather are inverse halves, even, uneven and in place") {
  for (const int size : {1, 2, 3, 5, 8}) {
    for (const bool uneven : {false, true}) {
      for (const bool in_place : {false, true}) {
        std::vector<std::int64_t> counts;
        for (int rank = 0; rank < size; ++rank) counts.push_back(uneven ? (rank * 2) % 5 : 3);
        std::int64_t full = 0;
        std::vector<std::int64_t> offsets;
        for (const std::int64_t count : counts) {
          offsets.push_back(full);
          full += count;
        }
        run_on_all(size, [&](Runtime& runtime, Communicator& world) {
          const auto me = static_cast<std::size_t>(world.rank());
          CallOptions options;
          if (uneven) options.counts = counts;
          const Tensor input = filled(runtime, full, DType::fp32,
                                      [&](std::int64_t i) { return element(world.rank(), i); });
          const Tensor chunk =
              in_place ? input.view(offsets[me], {counts[me]})
                       : runtime.allocate(MemoryCategory::comm, {counts[me]}, DType::fp32);
          world.reduce_scatter(chunk, input, ReduceOp::sum, options).wait();
          for (std::int64_t i = 0; i < counts[me]; ++i) {
            REQUIRE(chunk.get(i) == reduced(ReduceOp::sum, size, offsets[me] + i));
          }
          const Tensor output =
              in_place ? input : runtime.allocate(MemoryCategory::comm, {full}, DType::fp32);
          world.all_gather(output, chunk, options).wait();
          for (std::int64_t i = 0; i < full; ++i) {
            REQUIRE(output.get(i) == reduced(ReduceOp::sum, size, i));
          }
        });
      }
    }
  }
}

TEST_CASE("P1, P2: broadcast, reduce, gather and scatter work from every root") {
  for (const int size : {1, 2, 3, 6}) {
    for (int root = 0; root < size; ++root) {
      run_on_all(size, [&](Runtime& runtime, Communicator& world) {
        const auto mine = [&](std::int64_t i) { return element(world.rank(), i); };
        const Tensor sent = filled(runtime, 5, DType::int32, mine);
        world.broadcast(sent, root).wait();
        for (std::int64_t i = 0; i < 5; ++i) REQUIRE(sent.get(i) == element(root, i));

        const Tensor summed = filled(runtime, 5, DType::fp64, mine);
        world.reduce(summed, ReduceOp::sum, root).wait();
        for (std::int64_t i = 0; i < 5; ++i) {
          REQUIRE(summed.get(i) == (world.rank() == root ? reduced(ReduceOp::sum, size, i)
                                                         : element(world.rank(), i)));
        }

        const bool is_root = world.rank() == root;
        const Tensor own = filled(runtime, 2, DType::bf16, mine);
        const Tensor all =
            is_root ? runtime.allocate(MemoryCategory::comm, {2 * size}, DType::bf16) : Tensor();
        world.gather(all, own, root).wait();
        if (is_root) {
          for (int rank = 0; rank < size; ++rank) {
            REQUIRE(all.get(2 * rank + 1) == element(rank, 1));
          }
        }
        const Tensor back = runtime.allocate(MemoryCategory::comm, {2}, DType::bf16);
        world.scatter(back, all, root).wait();
        REQUIRE(back.get(0) == element(world.rank(), 0));
        REQUIRE(back.get(1) == element(world.rank(), 1));
      });
    }
  }
}

TEST_CASE(
    "P1, P2: all_to_all with equal chunks is its own inverse; with splits rows become columns") {
  for (const int size : {1, 2, 3, 5}) {
    run_on_all(size, [&](Runtime& runtime, Communicator& world) {
      const int me = world.rank();
      const Tensor input =
          filled(runtime, 2 * size, DType::fp32, [&](std::int64_t i) { return element(me, i); });
      const Tensor there = runtime.allocate(MemoryCategory::comm, {2 * size}, DType::fp32);
      const Tensor back = runtime.allocate(MemoryCategory::comm, {2 * size}, DType::fp32);
      world.all_to_all(there, input, {}, {}).wait();
      for (int peer = 0; peer < size; ++peer) {
        REQUIRE(there.get(2 * peer) == element(peer, 2 * me));
      }
      world.all_to_all(back, there, {}, {}).wait();
      for (std::int64_t i = 0; i < 2 * size; ++i) REQUIRE(back.get(i) == input.get(i));

      // Rank i sends (i + j) % 3 elements to rank j: the counts are symmetric.
      std::vector<std::int64_t> counts;
      std::int64_t total = 0;
      for (int peer = 0; peer < size; ++peer) {
        counts.push_back((me + peer) % 3);
        total += counts.back();
      }
      const Tensor row = filled(runtime, total, DType::int64, [&](std::int64_t) { return me; });
      const Tensor column = runtime.allocate(MemoryCategory::comm, {total}, DType::int64);
      world.all_to_all(column, row, counts, counts).wait();
      std::int64_t index = 0;
      for (int peer = 0; peer < size; ++peer) {
        for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(peer)]; ++i) {
          REQUIRE(column.get(index++) == peer);
        }
      }
    });
  }
}

TEST_CASE("P1: ring order rounds after every hop, rank order once") {
  // 256 + 1 is not a bf16; in rank order the sum 256 + 1 + 1 + ... + 1 is formed in fp32 first.
  const auto sum_with = [](ReductionOrder order) {
    double result = 0.0;
    run_ranks(4,
              [&](Runtime& runtime, Communicator& world) {
                const Tensor value = filled(runtime, 4, DType::bf16, [&](std::int64_t) {
                  return world.rank() == 0 ? 256.0 : 1.0;
                });
                world.all_reduce(value, ReduceOp::sum).wait();
                // Chunk 3 starts at rank 0: 256, then + 1 rounds back to 256 on every hop.
                result = value.get(3);
              },
              {.reduction_order = order});
    return result;
  };
  CHECK(sum_with(ReductionOrder::rank) == 260.0);  // 259 ties to even.
  CHECK(sum_with(ReductionOrder::wire) == 256.0);
}

TEST_CASE("P7: groups of a split work at the same time without mixing") {
  run_on_all(6, [](Runtime& runtime, Communicator& world) {
    const int row = world.rank() / 3;
    const int column = world.rank() % 3;
    // Reversed keys: member order must follow the key, not the rank.
    const auto rows = world.split(row, -column, "row");
    const auto columns = world.split(column, row, "column");
    CHECK(rows->size() == 3);
    CHECK(rows->rank() == 2 - column);
    CHECK(columns->size() == 2);
    CHECK(columns->rank() == row);
    const Tensor a = filled(runtime, 1, DType::int32, [&](std::int64_t) { return world.rank(); });
    const Tensor b = filled(runtime, 1, DType::int32, [&](std::int64_t) { return world.rank(); });
    Work first = rows->all_reduce(a, ReduceOp::sum);
    Work second = columns->all_reduce(b, ReduceOp::sum);
    second.wait();
    first.wait();
    CHECK(a.get(0) == (row == 0 ? 0 + 1 + 2 : 3 + 4 + 5));
    CHECK(b.get(0) == 2 * column + 3);
  });
}

TEST_CASE("P6: no rank leaves a barrier before all have entered it, a thousand times over") {
  static constexpr int kRanks = 5;
  const auto body = [](std::vector<int>& entered) {
    return [&entered](Runtime&, Communicator& world) {
      for (int& count : entered) {
        ++count;
        world.barrier().wait();
        REQUIRE(count == kRanks);
      }
    };
  };
  std::vector<int> entered(1000, 0);
  run_ranks(kRanks, body(entered));
  std::vector<int> in_messages(1000, 0);
  run_message_ranks(kRanks, body(in_messages));
}

TEST_CASE(
    "P1: point-to-point: matched in order, in one batch, to itself, with and without buffering") {
  for (const bool buffered : {false, true}) {
    const auto body = [](Runtime& runtime, Communicator& world) {
      const int me = world.rank();
      const int next = (me + 1) % 3;
      const int previous = (me + 2) % 3;
      const Tensor out =
          filled(runtime, 2, DType::fp32, [&](std::int64_t i) { return element(me, i); });
      const Tensor in = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
      const P2pOp shift[] = {{P2pOp::Kind::send, out, next}, {P2pOp::Kind::recv, in, previous}};
      world.batch(shift).wait();
      REQUIRE(in.get(1) == element(previous, 1));
      const Tensor self = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
      const P2pOp to_self[] = {{P2pOp::Kind::send, out, me}, {P2pOp::Kind::recv, self, me}};
      world.batch(to_self).wait();
      REQUIRE(self.get(0) == out.get(0));
      if (me == 0) {
        for (int i = 0; i < 4; ++i) {
          out.set(0, i);
          world.send(out, 1).wait();
        }
      } else if (me == 1) {
        for (int i = 0; i < 4; ++i) {
          world.recv(in, 0).wait();
          REQUIRE(in.get(0) == i);
        }
      }
    };
    run_ranks(3, body, {.buffered_sends = buffered});
    run_message_ranks(3, body, {.buffered_sends = buffered});
  }
}

TEST_CASE("a buffer is free once its own rank has waited, whether other members have or not") {
  for (const bool has_data : {true, false}) {
    FiberWorld world({.cluster = test_cluster(2), .has_data = has_data});
    std::vector<std::int64_t> left(2, -1);
    world.run([&](Runtime& runtime, Communicator& communicator) {
      const MemoryLedger& ledger = world.engine().rank(communicator.rank()).ledger();
      Tensor sum = runtime.allocate(MemoryCategory::comm, {4}, DType::fp64);
      communicator.all_reduce(sum, ReduceOp::sum).wait();
      Tensor message = runtime.allocate(MemoryCategory::comm, {4}, DType::fp64);
      const int peer = 1 - communicator.rank();
      (communicator.rank() == 0 ? communicator.send(message, peer)
                                : communicator.recv(message, peer))
          .wait();
      sum = {};
      message = {};
      left[static_cast<std::size_t>(communicator.rank())] = ledger.total_now();
    });
    CHECK(left == std::vector<std::int64_t>{0, 0});
  }
}

}  // namespace shardsim
