#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Reports of a watched world on buffers and on the order of groups. It must not report calls that
// follow each other: they may share buffers.
namespace shardsim {
namespace {

using Body = FiberWorld::RankBody;

Tensor zeros(Runtime& runtime, std::int64_t count) {
  return runtime.allocate(MemoryCategory::comm, {count}, DType::fp32);
}

std::string watched(int ranks, const Body& body, bool buffered = false) {
  return diagnosis_of(ranks, body, {.buffered_sends = buffered, .watch = true}).code;
}

std::vector<Diagnosis> warnings_of(int ranks, const Body& body) {
  FiberOptions options{.watch = true};
  options.cluster = test_cluster(ranks);
  FiberWorld world(options);
  world.run(body);
  return world.warnings();
}

// Two groups of all ranks.
void in_two_groups(Communicator& world,
                   const std::function<void(Communicator&, Communicator&)>& body) {
  const auto first = world.split(0, world.rank(), "first");
  const auto second = world.split(0, world.rank(), "second");
  body(*first, *second);
}

}  // namespace

TEST_CASE("calls of one stream may share a buffer: they follow each other") {
  CHECK(watched(3, [](Runtime& runtime, Communicator& world) {
          const Tensor buffer = zeros(runtime, 6);
          Work first = world.all_reduce(buffer, ReduceOp::sum);
          Work second = world.all_reduce(buffer, ReduceOp::sum);
          Work third = world.all_gather(buffer, buffer.view(2 * world.rank(), {2}));
          third.wait();
          first.wait();
          second.wait();
          CHECK(buffer.get(0) == 0.0);
        }) == "NONE");
}

TEST_CASE("calls of two streams may, if one starts after the other; else they overlap") {
  const auto chained = [](bool after) {
    return [after](Runtime& runtime, Communicator& world) {
      in_two_groups(world, [&](Communicator& first, Communicator& second) {
        const Tensor buffer = zeros(runtime, 6);
        const Tensor chunk = buffer.view(3 * world.rank(), {3});
        Work scattered = first.reduce_scatter(chunk, buffer, ReduceOp::sum);
        Work summed =
            second.all_reduce(chunk, ReduceOp::sum, {.after = after ? &scattered : nullptr});
        Work gathered = first.all_gather(buffer, chunk, {.after = after ? &summed : nullptr});
        gathered.wait();
        summed.wait();
        scattered.wait();
      });
    };
  };
  CHECK(watched(2, chained(true)) == "NONE");
  CHECK(watched(2, chained(false)) == "BUF_OVERLAP");
}

TEST_CASE("two calls may read one buffer at once") {
  CHECK(watched(2, [](Runtime& runtime, Communicator& world) {
          in_two_groups(world, [&](Communicator& first, Communicator& second) {
            const Tensor in = zeros(runtime, 2);
            const Tensor one = zeros(runtime, 4);
            const Tensor other = zeros(runtime, 4);
            Work a = first.all_gather(one, in);
            Work b = second.all_gather(other, in);
            CHECK(in.get(0) == 0.0);
            b.wait();
            a.wait();
          });
        }) == "NONE");
}

TEST_CASE("an input may be read while it is under way, and not written, by whatever means") {
  const auto touching = [](const std::function<void(const Tensor&)>& touch) {
    return [touch](Runtime& runtime, Communicator& world) {
      const Tensor in = zeros(runtime, 2);
      const Tensor out = zeros(runtime, 4);
      Work work = world.all_gather(out, in);
      touch(in);
      work.wait();
    };
  };
  CHECK(watched(2, touching([](const Tensor& in) { (void)in.get(1); })) == "NONE");
  CHECK(watched(2, touching([](const Tensor& in) { in.set(1, 5.0); })) == "BUF_WRITE");
  CHECK(watched(2, touching([](const Tensor& in) { in.data()[0] = std::byte{1}; })) == "BUF_WRITE");
  CHECK(watched(2, touching([](const Tensor& in) {
                  store(in, std::vector<double>{1.0, 2.0});
                })) == "BUF_WRITE");
  // Back to what it was: nothing that anybody could see.
  CHECK(watched(2, touching([](const Tensor& in) { in.data()[0] = std::byte{0}; })) == "NONE");
}

TEST_CASE("parts that are not under way are free") {
  CHECK(watched(2, [](Runtime& runtime, Communicator& world) {
          const Tensor all = zeros(runtime, 8);
          Work work = world.all_reduce(all.view(0, {4}), ReduceOp::sum);
          all.view(4, {4}).set(0, 3.0);
          CHECK(all.get(4) == 3.0);
          work.wait();
          CHECK(all.get(0) == 0.0);
        }) == "NONE");
}

TEST_CASE("a pointer that was taken before is found by what it has written") {
  for (const bool moved : {false, true}) {
    CHECK(watched(2, [moved](Runtime& runtime, Communicator& world) {
            const Tensor buffer = zeros(runtime, 4);
            auto* const raw = reinterpret_cast<float*>(buffer.data());
            Work work = world.all_reduce(buffer, ReduceOp::sum);
            // Before the data have moved, or after.
            if (moved) world.barrier().wait();
            raw[2] = 7.0F;
            work.wait();
          }) == "BUF_WRITE");
  }
}

TEST_CASE("messages are watched, in batches and alone, buffered and not") {
  const auto exchange = [](bool early) {
    return [early](Runtime& runtime, Communicator& world) {
      const Tensor out = zeros(runtime, 3);
      const Tensor in = zeros(runtime, 3);
      const int peer = 1 - world.rank();
      const std::vector<P2pOp> both = {{P2pOp::Kind::send, out, peer},
                                       {P2pOp::Kind::recv, in, peer}};
      Work work = world.batch(both);
      if (early) (void)in.get(0);
      work.wait();
      CHECK(in.get(0) == 0.0);
    };
  };
  for (const bool buffered : {false, true}) {
    CHECK(watched(2, exchange(false), buffered) == "NONE");
    CHECK(watched(2, exchange(true), buffered) == "BUF_READ_EARLY");
  }
}

TEST_CASE("what nobody holds any more when it is waited for was freed") {
  const auto dropping = [](bool drop) {
    return [drop](Runtime& runtime, Communicator& world) {
      Tensor buffer = zeros(runtime, 4);
      Work work = world.all_reduce(buffer.view(0, {2}), ReduceOp::sum);
      if (drop) buffer = Tensor();
      work.wait();
    };
  };
  CHECK(watched(2, dropping(false)) == "NONE");
  CHECK(watched(2, dropping(true)) == "BUF_FREED");
}

TEST_CASE("in place, a chunk lies where its rank's chunk does") {
  const auto gathering = [](int shift) {
    return [shift](Runtime& runtime, Communicator& world) {
      const Tensor full = zeros(runtime, 6);
      const int chunk = (world.rank() + shift) % 2;
      world.all_gather(full, full.view(3 * chunk, {3})).wait();
      world.reduce_scatter(full.view(3 * chunk, {3}), full, ReduceOp::sum).wait();
    };
  };
  CHECK(watched(2, gathering(0)) == "NONE");
  CHECK(watched(2, gathering(1)) == "BUF_OVERLAP");
}

TEST_CASE("groups used in different orders at once are warned of, in one order they are not") {
  const auto posting = [](bool differ, bool at_once) {
    return [=](Runtime& runtime, Communicator& world) {
      in_two_groups(world, [&](Communicator& first, Communicator& second) {
        const Tensor a = zeros(runtime, 2);
        const Tensor b = zeros(runtime, 2);
        const bool swap = differ && world.rank() == 1;
        Communicator& early = swap ? second : first;
        Communicator& late = swap ? first : second;
        Work one = early.all_reduce(swap ? b : a, ReduceOp::sum);
        if (!at_once) one.wait();
        Work other = late.all_reduce(swap ? a : b, ReduceOp::sum);
        other.wait();
        if (at_once) one.wait();
      });
    };
  };
  CHECK(warnings_of(2, posting(false, true)).empty());
  CHECK(warnings_of(2, posting(false, false)).empty());
  const std::vector<Diagnosis> warnings = warnings_of(2, posting(true, true));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().code == "NCCL_UNSAFE");
  CHECK(warnings.front().sides.size() == 2);
}

TEST_CASE("halves of a batch that share a buffer overlap") {
  using Kind = P2pOp::Kind;
  const auto exchange = [](Kind one, Kind other) {
    return [=](Runtime& runtime, Communicator& world) {
      const Tensor shared = zeros(runtime, 3);
      const Tensor free = zeros(runtime, 3);
      const int peer = 1 - world.rank();
      // The peer's halves match, in buffers of its own.
      const bool first = world.rank() == 0;
      const auto opposite = [](Kind kind) { return kind == Kind::send ? Kind::recv : Kind::send; };
      const std::vector<P2pOp> halves = {
          {first ? one : opposite(one), first ? shared : zeros(runtime, 3), peer},
          {first ? other : opposite(other), first ? shared : free, peer}};
      world.batch(halves).wait();
    };
  };
  CHECK(watched(2, exchange(Kind::recv, Kind::recv)) == "BUF_OVERLAP");
  CHECK(watched(2, exchange(Kind::send, Kind::recv)) == "BUF_OVERLAP");
  CHECK(watched(2, exchange(Kind::recv, Kind::send)) == "BUF_OVERLAP");
}

TEST_CASE("the address of a buffer in flight may be taken for later") {
  CHECK(watched(2, [](Runtime& runtime, Communicator& world) {
          const Tensor all = zeros(runtime, 8);
          Work work = world.all_reduce(all.view(0, {4}), ReduceOp::sum);
          auto* const raw = reinterpret_cast<float*>(all.data());
          raw[5] = 3.0F;
          work.wait();
          raw[0] = 1.0F;
          CHECK(all.get(5) == 3.0);
        }) == "NONE");
}

TEST_CASE("watching changes no trace, time or byte") {
  const Body body = [](Runtime& runtime, Communicator& world) {
    const Tensor all = zeros(runtime, 8);
    world.all_reduce(all, ReduceOp::sum).wait();
    world.all_gather(all, all.view(4 * world.rank(), {4})).wait();
  };
  const auto hash = [&](bool watch) {
    FiberOptions options{.watch = watch};
    options.cluster = test_cluster(2);
    FiberWorld world(options);
    world.run(body);
    return world.engine().trace_hash();
  };
  CHECK(hash(true) == hash(false));
}

}  // namespace shardsim
