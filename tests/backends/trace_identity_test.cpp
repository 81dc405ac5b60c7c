#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// The coverage of the trace hash, and the identity of the slices of a trace.
namespace shardsim {
namespace {

using Body = FiberWorld::RankBody;

std::vector<std::uint64_t> hashes_of(const Body& body, std::uint64_t seed = 0) {
  FiberWorld world({.cluster = test_cluster(4), .has_data = false, .interleaving_seed = seed});
  world.run(body);
  std::vector<std::uint64_t> hashes;
  for (int rank = 0; rank < 4; ++rank) hashes.push_back(world.engine().rank(rank).hash().value());
  return hashes;
}

// All fields of the calls of one small program.
struct TracedProgram {
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  std::int64_t padding = 1;
  std::vector<ElementRange> padding_at;
  TrafficClass traffic = TrafficClass::payload;
  const char* label = "gradients of layer 1";
  DType dtype = DType::fp32;
  int color = 0;
  int first_key = 0;
  std::vector<std::int64_t> counts = {1, 2, 3, 2};
  const char* message = "activations";
  ComputeOp work = {"work", ComputeKind::memory_bound, DType::fp32, 0, 1000};

  void operator()(Runtime& runtime, Communicator& world) const {
    // Not in the ledger, which has a share in the hash as well.
    const Tensor full = Tensor::allocate(nullptr, MemoryCategory::comm, {8}, dtype, true);
    const int rank = world.rank();
    runtime.compute(work, [] {});
    world.broadcast(full, root).wait();
    world
        .all_reduce(
            full, op,
            {.label = label, .padding = padding, .padding_at = padding_at, .traffic = traffic})
        .wait();
    world
        .all_gather(full, full.view(0, {counts[static_cast<std::size_t>(rank)]}),
                    {.counts = counts})
        .wait();
    const P2pOp pair[] = {{P2pOp::Kind::send, full, (rank + 1) % 4},
                          {P2pOp::Kind::recv, full, (rank + 3) % 4}};
    world.batch(pair, {.label = message}).wait();
    const auto child = world.split(color, first_key + rank, "child");
  }
};

}  // namespace

TEST_CASE("a change of any one field of a call or an operation changes every rank's hash") {
  const std::vector<std::uint64_t> base = hashes_of(TracedProgram());
  const std::pair<const char*, std::function<void(TracedProgram&)>> changes[] = {
      {"root", [](TracedProgram& p) { p.root = 1; }},
      {"reduce op", [](TracedProgram& p) { p.op = ReduceOp::avg; }},
      {"padding", [](TracedProgram& p) { p.padding = 2; }},
      {"no padding", [](TracedProgram& p) { p.padding = 0; }},
      {"place of padding",
       [](TracedProgram& p) {
         p.padding_at = {{0, 1}};
       }},
      {"another place of padding",
       [](TracedProgram& p) {
         p.padding_at = {{1, 2}};
       }},
      {"traffic class", [](TracedProgram& p) { p.traffic = TrafficClass::scalar; }},
      {"label", [](TracedProgram& p) { p.label = "gradients of layer 2"; }},
      {"no label", [](TracedProgram& p) { p.label = ""; }},
      {"dtype", [](TracedProgram& p) { p.dtype = DType::int32; }},
      {"counts",
       [](TracedProgram& p) {
         p.counts = {1, 3, 2, 2};
       }},
      {"label of a batch", [](TracedProgram& p) { p.message = "gradients"; }},
      {"color", [](TracedProgram& p) { p.color = 1; }},
      {"key", [](TracedProgram& p) { p.first_key = 1; }},
      {"kind of work", [](TracedProgram& p) { p.work.kind = ComputeKind::matmul; }},
      {"dtype of work", [](TracedProgram& p) { p.work.dtype = DType::bf16; }},
      {"flops", [](TracedProgram& p) { p.work.flops = 1; }},
      {"bytes", [](TracedProgram& p) { p.work.bytes = 1001; }},
  };
  for (const auto& [field, change] : changes) {
    INFO(field);
    TracedProgram program;
    change(program);
    const std::vector<std::uint64_t> changed = hashes_of(program);
    // Counts 1 and 2 are the same on two ranks; the hash of all of them covers the whole list.
    for (std::size_t rank = 0; rank < base.size(); ++rank) CHECK(changed[rank] != base[rank]);
  }
  for (std::uint64_t seed = 1; seed <= 10; ++seed) CHECK(hashes_of(TracedProgram(), seed) == base);
}

TEST_CASE("a label is hashed by its text, not by where the text lies") {
  const std::string copies[] = {"bucket 3 of the day", "bucket 3 of the day"};
  TracedProgram a;
  a.label = copies[0].c_str();
  TracedProgram b;
  b.label = copies[1].c_str();
  CHECK(hashes_of(a) == hashes_of(b));
  const Body own_copies = [&](Runtime& runtime, Communicator& world) {
    TracedProgram program;
    program.label = copies[world.rank() % 2].c_str();
    program(runtime, world);
  };
  CHECK(hashes_of(own_copies) == hashes_of(a));
}

TEST_CASE("what a rank receives in an all_to_all is part of its hash") {
  // Rank 2's large message to rank 3 sets the price; only rank 1's message to rank 0 differs.
  const auto program = [](std::int64_t from_one) {
    return [=](Runtime&, Communicator& world) {
      const int rank = world.rank();
      const Tensor space =
          Tensor::allocate(nullptr, MemoryCategory::comm, {2000}, DType::int8, true);
      std::vector<std::int64_t> send(4, 0);
      std::vector<std::int64_t> recv(4, 0);
      if (rank == 1) send[0] = from_one;
      if (rank == 0) recv[1] = from_one;
      if (rank == 2) send[3] = 1000;
      if (rank == 3) recv[2] = 1000;
      const auto sum = [](const auto& counts) {
        return counts[0] + counts[1] + counts[2] + counts[3];
      };
      world.all_to_all(space.view(0, {sum(recv)}), space.view(0, {sum(send)}), send, recv).wait();
    };
  };
  const auto one = hashes_of(program(1));
  const auto two = hashes_of(program(2));
  CHECK(one[0] != two[0]);
  CHECK(one[1] != two[1]);
  CHECK(one[2] == two[2]);
}

TEST_CASE("ranks that do the same in groups of one split have equal stretches, not equal hashes") {
  FiberWorld world({.cluster = test_cluster(4), .has_data = false});
  std::vector<std::uint64_t> stretches(4);
  std::vector<std::uint64_t> edges(4);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const int rank = everyone.rank();
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    const auto pair = everyone.split(rank / 2, rank, "pair");
    const auto edge = pair->split(0, rank, "edge");
    const auto stretch = [&] { return world.engine().rank(rank).hash().stretch().value(); };
    Work sum = pair->all_reduce(buffer, ReduceOp::sum);
    stretches[static_cast<std::size_t>(rank)] = stretch();
    sum.wait();
    sum = edge->all_reduce(buffer, ReduceOp::sum);
    edges[static_cast<std::size_t>(rank)] = stretch();
    sum.wait();
  });
  std::set<std::uint64_t> hashes;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(stretches[rank] == stretches[0]);
    CHECK(edges[rank] == edges[0]);
    CHECK(edges[rank] != stretches[rank]);  // Another communicator.
    hashes.insert(world.engine().rank(static_cast<int>(rank)).hash().value());
  }
  CHECK(hashes.size() == 4);
}

TEST_CASE("each rank's hash has the times of what it waits for, and its own") {
  const auto waits = [](std::int64_t start, std::int64_t end, std::int64_t clock) {
    RankState rank(0);
    rank.clock().compute(Time::from_picoseconds(clock));
    rank.wait(Time::from_picoseconds(start), Time::from_picoseconds(end), false, {});
    return rank.hash().value();
  };
  const std::set<std::uint64_t> all = {waits(5, 9, 7), waits(6, 9, 7),  waits(5, 10, 7),
                                       waits(5, 9, 8), waits(6, 10, 8), waits(9, 5, 7),
                                       waits(7, 9, 5)};
  CHECK(all.size() == 7);
}

namespace {

// Every slice of every rank's communication: name and id, in program order.
std::vector<std::vector<std::pair<std::string, std::int64_t>>> slices_of(std::uint64_t seed,
                                                                         bool buffered = false) {
  FiberWorld world({.cluster = test_cluster(4),
                    .has_data = false,
                    .buffered_sends = buffered,
                    .traced_ranks = {0, 1, 2, 3},
                    .interleaving_seed = seed});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const int rank = everyone.rank();
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    const auto pair = everyone.split(rank / 2, rank, "pair");
    for (int i = 0; i < 2; ++i) {
      pair->all_reduce(buffer, ReduceOp::sum).wait();
      everyone.all_reduce(buffer, ReduceOp::sum).wait();
      (rank % 2 == 0 ? pair->send(buffer, 1) : pair->recv(buffer, 0)).wait();
      (rank % 2 == 1 ? pair->send(buffer, 0) : pair->recv(buffer, 1)).wait();
    }
    const P2pOp both[] = {{P2pOp::Kind::send, buffer, 1 - pair->rank()},
                          {P2pOp::Kind::recv, buffer, 1 - pair->rank()}};
    pair->batch(both).wait();
  });
  std::vector<std::vector<std::pair<std::string, std::int64_t>>> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    auto& slices = ranks.emplace_back();
    for (const TraceTrack& track : world.engine().rank(rank).trace()->tracks) {
      for (const TraceSlice& slice : track.slices) slices.emplace_back(slice.name, slice.operation);
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("slices of one communication share a number that no other one has") {
  const bool buffered = GENERATE(false, true);
  const auto base = slices_of(0, buffered);
  std::map<std::int64_t, std::multiset<int>> members;
  for (std::size_t rank = 0; rank < base.size(); ++rank) {
    for (const auto& [name, operation] : base[rank]) {
      CHECK((operation == -1) == (name == "batch"));
      if (operation >= 0) members[operation].insert(static_cast<int>(rank));
    }
  }
  // The world: a split and 2 all_reduces. Each pair: 2 all_reduces and 2 messages each way.
  std::map<std::multiset<int>, int> communications;
  for (const auto& [_, ranks] : members) ++communications[ranks];
  CHECK(communications ==
        std::map<std::multiset<int>, int>{{{0, 1, 2, 3}, 3}, {{0, 1}, 6}, {{2, 3}, 6}});
  for (std::uint64_t seed = 1; seed <= 10; ++seed) CHECK(slices_of(seed, buffered) == base);
}

TEST_CASE("a slice's bytes are what the rank sent, padding included") {
  FiberWorld world({.cluster = test_cluster(4), .has_data = false, .traced_ranks = {3}});
  world.run([](Runtime& runtime, Communicator& everyone) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {12}, DType::int8);
    everyone.reduce_scatter(full.view(0, {3}), full, ReduceOp::sum, {.padding = 2}).wait();
  });
  CHECK(world.engine().rank(3).trace()->tracks.at(1).slices.at(0).bytes == 9);
}

}  // namespace shardsim
