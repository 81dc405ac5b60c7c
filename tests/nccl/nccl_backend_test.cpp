#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/nccl/nccl_fixture.hpp"

namespace shardsim {
namespace {

// NCCL's calls of one rank of the world, names only, from the first collective on.
std::vector<std::string> calls_of(int rank) {
  std::vector<std::string> names;
  for (const std::string& call : stand_in::calls()) {
    const std::string prefix = std::to_string(rank) + " nccl";
    if (call.rfind(prefix, 0) != 0) continue;
    const std::size_t begin = prefix.size() - 4;
    const std::string name = call.substr(begin, call.find(' ', begin) - begin);
    if (name.rfind("ncclComm", 0) != 0) names.push_back(name);
  }
  return names;
}

Tensor ranks_value(Runtime& runtime, const Communicator& world, std::int64_t count = 4) {
  return filled(runtime, count, DType::fp32,
                [&](std::int64_t i) { return 10.0 * world.rank() + static_cast<double>(i); });
}

}  // namespace

TEST_CASE("NCCL: groups that cross each other, ranked by key, each with its own members") {
  run_nccl_ranks(6, [](Runtime& runtime, Communicator& world) {
    const int row = world.rank() / 3;
    const auto along = world.split(row, -world.rank(), "row");
    const auto across = world.split(world.rank() % 3, 0, "column");
    REQUIRE(along->size() == 3);
    REQUIRE(along->rank() == 2 - world.rank() % 3);  // Keys are descending.
    REQUIRE(across->rank() == row);
    const Tensor a = filled(runtime, 1, DType::fp32, [&](auto) { return world.rank(); });
    const Tensor b = filled(runtime, 1, DType::fp32, [&](auto) { return world.rank(); });
    Work first = along->all_reduce(a, ReduceOp::sum);
    Work second = across->all_reduce(b, ReduceOp::sum);
    second.wait();
    first.wait();
    REQUIRE(a.get(0) == 3.0 * (3 * row + 1));
    REQUIRE(b.get(0) == 2.0 * (world.rank() % 3) + 3.0);
    // The first rank in the row is the last of the world's ranks there.
    const Tensor c = filled(runtime, 1, DType::fp32, [&](auto) { return world.rank(); });
    along->broadcast(c, 0).wait();
    REQUIRE(c.get(0) == 3 * row + 2);
    // A part of a part.
    const auto alone = along->split(along->rank(), 0, "alone");
    REQUIRE(alone->size() == 1);
    alone->all_reduce(c, ReduceOp::avg).wait();
    alone->barrier().wait();
    REQUIRE(c.get(0) == 3 * row + 2);
  });
}

TEST_CASE("NCCL: a group is split while calls on it and on others are not waited for") {
  run_nccl_ranks(4, [](Runtime& runtime, Communicator& world) {
    const auto other = world.split(0, 0, "other");
    const Tensor a = ranks_value(runtime, world);
    const Tensor b = ranks_value(runtime, world);
    Work first = world.all_reduce(a, ReduceOp::sum);
    Work second = other->all_reduce(b, ReduceOp::max);
    const auto part = world.split(world.rank() % 2, 0, "part");
    second.wait();
    first.wait();
    REQUIRE(part->size() == 2);
    REQUIRE(a.get(1) == 64.0);
    REQUIRE(b.get(1) == 31.0);
  });
}

TEST_CASE("NCCL: calls are launched in program order over all groups") {
  run_nccl_ranks(2, [](Runtime& runtime, Communicator& world) {
    const auto other = world.split(0, 0, "other");
    const Tensor a = ranks_value(runtime, world);
    const Tensor b = ranks_value(runtime, world);
    const Tensor c = ranks_value(runtime, world);
    Work first = world.all_reduce(a, ReduceOp::sum);
    Work second = other->broadcast(b, 0);
    Work third = world.reduce(c, ReduceOp::max, 0);
    third.wait();
    second.wait();
    first.wait();
  });
  const std::vector<std::string> expected = {"ncclAllGather", "ncclAllReduce", "ncclBroadcast",
                                             "ncclReduce"};
  CHECK(calls_of(0) == expected);
  CHECK(calls_of(1) == expected);
}

TEST_CASE("NCCL: a call that sends what an earlier one brings gets it, in order or by `after`") {
  run_nccl_ranks(3, [](Runtime& runtime, Communicator& world) {
    const auto other = world.split(0, 0, "other");
    const Tensor sum = filled(runtime, 2, DType::fp64, [&](auto) { return world.rank() + 1.0; });
    const Tensor gathered = runtime.allocate(MemoryCategory::comm, {6}, DType::fp64);
    Work reduced = world.all_reduce(sum, ReduceOp::sum);
    Work same_group = world.all_gather(gathered, sum);
    Work after = other->all_reduce(sum, ReduceOp::max, {.after = &reduced});
    after.wait();
    same_group.wait();
    reduced.wait();
    for (int i = 0; i < 6; ++i) REQUIRE(gathered.get(i) == 6.0);
    REQUIRE(sum.get(1) == 6.0);
  });
}

TEST_CASE("NCCL: `after` holds a call back until the other has ended, on the device as well") {
  const auto run = [](bool in_order) {
    run_nccl_ranks(2, [&](Runtime& runtime, Communicator& world) {
      const auto other = world.split(0, 0, "other");
      const Tensor a = ranks_value(runtime, world);
      const Tensor b = ranks_value(runtime, world);
      if (world.rank() == 1) {
        other->all_reduce(b, ReduceOp::sum).wait();
        world.all_reduce(a, ReduceOp::sum).wait();
        return;
      }
      Work first = world.all_reduce(a, ReduceOp::sum);
      Work second = other->all_reduce(b, ReduceOp::sum, {.after = in_order ? &first : nullptr});
      second.wait();
      first.wait();
    });
  };
  CHECK_NOTHROW(run(false));
  CHECK_THROWS_AS(run(true), CommunicationError);  // Each rank waits for the other's first.
}

TEST_CASE("NCCL: of two calls that write the same buffer, the one that comes after wins") {
  run_nccl_ranks(2, [](Runtime& runtime, Communicator& world) {
    const auto other = world.split(0, 0, "other");
    const Tensor early = filled(runtime, 2, DType::fp32, [](auto) { return 1.0; });
    const Tensor late = filled(runtime, 2, DType::fp32, [](auto) { return 2.0; });
    const Tensor target = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
    const bool root = world.rank() == 0;
    // Both are on the device before anything of them is looked at.
    world.barrier().wait();
    stand_in::script().polls_in_progress = 0;
    Work first = other->broadcast(root ? early : target, 0);
    Work second = world.broadcast(root ? late : target, 0, {.after = &first});
    second.wait();
    first.wait();
    REQUIRE((root || target.get(1) == 2.0));
  });
}

TEST_CASE("NCCL: `after` is a work that is waited for still") {
  try {
    run_nccl_ranks(2, [](Runtime& runtime, Communicator& world) {
      const Tensor a = ranks_value(runtime, world);
      Work done = world.all_reduce(a, ReduceOp::sum);
      done.wait();
      world.all_reduce(a, ReduceOp::sum, {.after = &done}).wait();
    });
    FAIL("not refused");
  } catch (const CommunicationError& error) {
    CHECK(error.diagnosis().code == "ARG_RANGE");
  }
}

TEST_CASE("NCCL: many buffers larger than a slab, all at once, and the memory used again") {
  run_nccl_ranks(2, [](Runtime& runtime, Communicator& world) {
    for (int round = 0; round < 3; ++round) {
      std::vector<Tensor> buffers;
      std::vector<Work> works;
      for (int i = 0; i < 5; ++i) {
        buffers.push_back(filled(runtime, 6000 * (i + 1), DType::int32,
                                 [&](std::int64_t at) { return at % 100 + i + world.rank(); }));
        works.push_back(world.all_reduce(buffers.back(), ReduceOp::sum));
      }
      for (Work& work : works) work.wait();
      for (int i = 0; i < 5; ++i) {
        REQUIRE(buffers[static_cast<std::size_t>(i)].get(123) == 2 * (23 + i) + 1);
      }
    }
    // Five at once, in three rounds of the same sizes: nothing is taken twice.
    REQUIRE(stand_in::live().allocations <= 2 * 6);
  });
}

TEST_CASE("NCCL: uneven chunks are grouped rooted calls, even ones a single call") {
  run_nccl_ranks(2, [](Runtime& runtime, Communicator& world) {
    const std::vector<std::int64_t> counts = {3, 1};
    const std::int64_t own = counts[static_cast<std::size_t>(world.rank())];
    const Tensor full = ranks_value(runtime, world, 4);
    const Tensor part = runtime.allocate(MemoryCategory::comm, {own}, DType::fp32);
    world.reduce_scatter(part, full, ReduceOp::avg, {.counts = counts}).wait();
    REQUIRE(part.get(0) == 5.0 + (world.rank() == 0 ? 0 : 3));
    world.all_gather(full, part, {.counts = counts}).wait();
    REQUIRE(full.get(3) == 8.0);
    const Tensor half = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
    world.reduce_scatter(half, full, ReduceOp::sum).wait();
    REQUIRE(half.get(1) == (world.rank() == 0 ? 12.0 : 16.0));
  });
  CHECK(calls_of(0) == std::vector<std::string>{"ncclReduce", "ncclReduce", "ncclBroadcast",
                                                "ncclBroadcast", "ncclReduceScatter"});
}

TEST_CASE("NCCL: both halves of an exchange travel together, also to oneself, also empty") {
  run_nccl_ranks(3, [](Runtime& runtime, Communicator& world) {
    const int next = (world.rank() + 1) % 3;
    const int previous = (world.rank() + 2) % 3;
    const Tensor out = ranks_value(runtime, world);
    const Tensor in = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    const Tensor copy = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    const Tensor none = runtime.allocate(MemoryCategory::comm, {0}, DType::fp32);
    const std::vector<P2pOp> batch = {
        {P2pOp::Kind::send, out, next},         {P2pOp::Kind::recv, in, previous},
        {P2pOp::Kind::send, out, world.rank()}, {P2pOp::Kind::recv, copy, world.rank()},
        {P2pOp::Kind::send, none, previous},    {P2pOp::Kind::recv, none, next}};
    world.batch(batch).wait();
    REQUIRE(in.get(3) == 10.0 * previous + 3);
    REQUIRE(copy.get(2) == out.get(2));
  });
}

TEST_CASE("NCCL: fp8 moves, and is not reduced") {
  const auto body = [](Runtime& runtime, Communicator& world) {
    const Tensor bytes = runtime.allocate(MemoryCategory::comm, {3}, DType::fp8_e4m3);
    bytes.data()[1] = static_cast<std::byte>(world.rank() == 1 ? 0x42 : 0);
    world.broadcast(bytes, 1).wait();
    REQUIRE(bytes.data()[1] == std::byte{0x42});
    world.all_reduce(bytes, ReduceOp::sum).wait();
  };
  CHECK_THROWS_WITH(run_nccl_ranks(2, body), "fp8 tensors cannot be reduced");
}

TEST_CASE("NCCL: every rank's communicators are ended once, after all calls") {
  run_nccl_ranks(3, [](Runtime& runtime, Communicator& world) {
    const auto part = world.split(world.rank() / 2, 0, "part");
    world.all_reduce(ranks_value(runtime, world), ReduceOp::sum).wait();
  });
  const auto count = [](const std::string& name) {
    const std::vector<std::string>& calls = stand_in::calls();
    return std::count_if(calls.begin(), calls.end(), [&](const std::string& call) {
      return call.find(name) != std::string::npos;
    });
  };
  CHECK(count("ncclCommFinalize") == 6);
  CHECK(count("ncclCommDestroy") == 6);
  CHECK(count("ncclCommAbort") == 0);
}

}  // namespace shardsim
