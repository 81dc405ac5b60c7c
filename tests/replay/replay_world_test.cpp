#include "backends/replay/replay_world.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/program/recorder.hpp"

#include "tests/backends/fiber_fixture.hpp"

// Small programs, replayed: times by hand and against fibers, and how a replay ends that cannot go
// on.
namespace shardsim::test {
namespace {

using Body = std::function<void(Runtime&, Communicator&)>;

RankPrograms recorded(int ranks, const Body& body) {
  Recorder recorder(ranks);
  RankPrograms programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.programs.push_back(recorder.record(
        rank,
        [&](Runtime& runtime, Communicator& world, ProgramWriter&) { body(runtime, world); }));
    programs.of_rank.push_back(rank);
  }
  return programs;
}

std::string ending(const RankPrograms& programs) {
  ReplayWorld world({.cluster = test_cluster(static_cast<int>(programs.of_rank.size()))}, programs);
  try {
    world.run();
  } catch (const ReplayEnded& ended) {
    return ended.reason;
  }
  return "";
}

std::string ending(int ranks, const Body& body) { return ending(recorded(ranks, body)); }

// The first difference of both worlds after a body; "" if there is none.
std::string difference(const Cluster& cluster, const Body& body) {
  const int ranks = cluster.num_ranks();
  FiberWorld run({.cluster = cluster, .has_data = false});
  run.run(body);
  const RankPrograms programs = recorded(ranks, body);
  ReplayWorld replay({.cluster = cluster}, programs);
  replay.run();
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string where = "rank " + std::to_string(rank) + ": ";
    if (run.rank(rank).now() != replay.rank(rank).now()) return where + "clock";
    if (run.rank(rank).clock().issued() != replay.rank(rank).clock().issued())
      return where + "host";
    if (run.rank(rank).split() != replay.rank(rank).split()) return where + "split";
    if (run.ledger(rank).peak() != replay.ledger(rank).peak()) return where + "peak";
    if (run.comm_busy(rank) != replay.comm_busy(rank)) return where + "busy";
  }
  if (run.sent_by_rank() != replay.sent_by_rank()) return "sent";
  if (run.trace_hash() != replay.trace_hash()) return "hash";
  return "";
}

Tensor bytes(Runtime& runtime, std::int64_t count) {
  return runtime.allocate(MemoryCategory::comm, {count}, DType::int8);
}

}  // namespace

TEST_CASE("replay: a message waits for its receiver, and both go on at its end") {
  const RankPrograms programs = recorded(2, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = bytes(runtime, 1'000'000);
    if (world.rank() == 1) {
      runtime.compute({"work", ComputeKind::memory_bound, DType::int8, 0, 5'000'000}, [] {});
    }
    (world.rank() == 0 ? world.send(buffer, 1) : world.recv(buffer, 0)).wait();
  });
  ReplayWorld world({.cluster = test_cluster(2)}, programs);
  world.run();
  // 5 us of work at 1e12 bytes/s, then 1 us and 10 us at 1e11 bytes/s.
  const Time start = Time::from_seconds(5e-6);
  const Time end = Time::from_seconds(16e-6);
  CHECK(world.rank(0).now() == end);
  CHECK(world.rank(1).now() == end);
  CHECK(world.rank(0).split().bubble == start);
  CHECK(world.rank(0).split().exposed_comm == end - start);
  CHECK(world.rank(1).split().bubble == Time());
  CHECK(world.total_traffic().payload_sent == 1'000'000);
}

TEST_CASE("replay: works that come behind others, batches and groups are those of fibers") {
  Cluster cluster = test_cluster(8, 4);
  cluster.device.host_s_per_kernel = 3e-6;
  cluster.device.host_s_per_call = 2e-6;
  const Body body = [](Runtime& runtime, Communicator& world) {
    const int rank = world.rank();
    const RankSpan pairs{.axes = {{{2, 1}}}, .size = 2};
    const RankSpan rows{.axes = {{{4, 2}}}, .size = 4};
    const auto pair = world.subgroup(pairs.around(rank), "pair");
    const auto row = world.subgroup(rows.around(rank), "row");
    const auto ends = row->subgroup(
        row->rank() % 3 == 0 ? RankSpan::line(4).part(3, -3, 2) : RankSpan::none(), "ends");
    const Tensor buffer = bytes(runtime, 300'000 + 1000 * (rank / 2));
    const Tensor whole = bytes(runtime, 2'000'001);
    const auto work = [&](std::int64_t count) {
      runtime.compute({"work", ComputeKind::memory_bound, DType::int8, 9, count}, [] {});
    };
    for (int turn = 0; turn < 3; ++turn) {
      work(1'000'000 * (rank + turn));
      Work sum = row->all_reduce(whole, ReduceOp::sum, {.label = "gradients"});
      work(400'000);
      Work behind = pair->all_reduce(buffer, ReduceOp::sum, {.after = &sum});
      const P2pOp both[] = {{P2pOp::Kind::send, whole, (row->rank() + 1) % 4},
                            {P2pOp::Kind::recv, whole, (row->rank() + 3) % 4}};
      Work ring = row->batch(both);
      work(7000);
      if (ends != nullptr) {
        (ends->rank() == 0 ? ends->send(buffer.view(0, {100}), 1)
                           : ends->recv(buffer.view(0, {100}), 0))
            .wait();
      }
      behind.wait();
      ring.wait();
      sum.wait();
      world.barrier({.traffic = TrafficClass::scalar}).wait();
    }
  };
  CHECK(difference(cluster, body) == "");
  cluster.device.slowdown_beside_collectives = 0.3;
  CHECK(difference(cluster, body) == "");
  cluster.device.host_waits_for_kernels = true;
  CHECK(difference(cluster, body) == "");
}

TEST_CASE("replay: members of an all_to_all with counts of their own move what they say") {
  const auto body = [](std::int64_t extra) {
    return [extra](Runtime& runtime, Communicator& world) {
      const int rank = world.rank();
      std::vector<std::int64_t> send;
      std::vector<std::int64_t> recv;
      for (int peer = 0; peer < 4; ++peer) {
        send.push_back(100 * rank + 7 * peer);
        recv.push_back(100 * peer + 7 * rank);
      }
      if (rank == 2) recv[1] += extra;
      const auto sum = [](const std::vector<std::int64_t>& counts) {
        return counts[0] + counts[1] + counts[2] + counts[3];
      };
      world.all_to_all(bytes(runtime, sum(recv)), bytes(runtime, sum(send)), send, recv).wait();
    };
  };
  CHECK(difference(test_cluster(4), body(0)) == "");
  CHECK(ending(4, body(1)) == "counts of group world differ");
}

TEST_CASE("replay: what only a run can explain ends it") {
  CHECK(ending(2, [](Runtime& runtime, Communicator& world) {
          const Tensor buffer = bytes(runtime, 8);
          world.recv(buffer, 1 - world.rank()).wait();
        }) == "some ranks wait for ever");
  CHECK(ending(2, [](Runtime& runtime, Communicator& world) {
          const Tensor buffer = bytes(runtime, 8 + world.rank());
          world.all_reduce(buffer, ReduceOp::sum).wait();
        }) == "calls of group world differ");
  CHECK(ending(2, [](Runtime& runtime, Communicator& world) {
          const Tensor buffer = bytes(runtime, 8 + world.rank());
          (world.rank() == 0 ? world.send(buffer, 1) : world.recv(buffer, 0)).wait();
        }) == "a message of group world differs on both sides");
  CHECK(ending(3, [](Runtime&, Communicator& world) {
          if (world.rank() < 2) world.barrier().wait();
        }) == "some ranks wait for ever");
}

TEST_CASE("replay: a rank with the program of another class is seen") {
  RankPrograms programs = recorded(4, [](Runtime&, Communicator& world) {
    const RankSpan whole = RankSpan::line(4);
    const auto half = world.subgroup(whole.part(world.rank() / 2 * 2, 1, 2), "half");
    const auto first =
        half->subgroup(half->rank() == 0 ? whole.part(0, 1, 1) : RankSpan::none(), "first");
  });
  CHECK(ending(programs) == "");
  programs.of_rank = {0, 1, 0, 1};
  CHECK(ending(programs) == "");  // Groups lie around the rank.
  programs.of_rank = {0, 0, 2, 3};
  CHECK(ending(programs) == "the members of group first are not those of its class");
  programs.of_rank = {1, 1, 2, 3};
  CHECK(ending(programs) == "");  // Nobody misses a group that nobody forms.
}

}  // namespace shardsim::test
