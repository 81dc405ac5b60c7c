#define CATCH_CONFIG_RUNNER
#include <cstdlib>
#include <memory>

#include <catch2/catch.hpp>
#include <sched.h>
#include <unistd.h>

#include "backends/message/message_rank.hpp"
#include "backends/mpi/mpi_library.hpp"
#include "backends/process_backend.hpp"
#include "backends/rendezvous/monotonic_clock.hpp"

#include "tests/backends/definitions.hpp"

// All collectives on the processes of a real MPI job, made of messages and MPI's own, whole world
// and groups, held against their definitions. To be started by mpirun; SHARDSIM_PIECE_BYTES:
// messages and collectives longer than that travel in pieces, as those of more than 2^30 do.
namespace shardsim {
namespace {

std::unique_ptr<MpiJob> job;

MessageOptions options_of(bool native) {
  MessageOptions options;
  options.cluster = test_cluster(job->table().size(0));
  options.clock = monotonic_seconds;
  options.idle = [] { sched_yield(); };
  options.native_collectives = native;
  return options;
}

void check_all(Runtime& runtime, Communicator& group, DType dtype, std::int64_t count) {
  definitions::Definitions definitions(runtime, group, dtype, count);
  for (const ReduceOp op : definitions::kOps) definitions.check_reductions(op);
  definitions.check_moves();
  definitions.check_all_to_all();
}

// `body` on the world made of messages, then by MPI's own collectives.
void run_both_ways(const FiberWorld::RankBody& body) {
  for (const bool native : {false, true}) {
    INFO((native ? "MPI's own collectives" : "collectives made of messages"));
    MessageRank process(std::make_unique<MpiTransport>(*job), options_of(native));
    ProcessRuntime runtime(process.rank());
    body(runtime, *process.world());
    process.finish();
  }
}

}  // namespace

TEST_CASE("every collective over MPI is its definition, in every dtype, whole and uneven") {
  run_both_ways([](Runtime& runtime, Communicator& world) {
    const int size = world.size();
    for (const DType dtype : definitions::kDTypes) {
      for (const std::int64_t count : {0, 1, size - 1, 2 * size + 1, 3 * size, 301}) {
        INFO(name_of(dtype) << " x " << count);
        check_all(runtime, world, dtype, count);
      }
    }
  });
}

TEST_CASE("groups of an MPI job are ranked by key and keep apart what is under way at once") {
  run_both_ways([](Runtime& runtime, Communicator& world) {
    const int color = world.rank() % 2;
    const auto group = world.split(color, -world.rank(), "parity");
    CHECK(group->size() == (world.size() + 1 - color) / 2);
    const auto inner = group->split(0, group->rank(), "again");
    check_all(runtime, *inner, DType::bf16, 7);
    // Both at once, the world's first waited for last.
    const Tensor of_world = filled(runtime, 5, DType::fp64, [](std::int64_t) { return 1.0; });
    const Tensor of_group = filled(runtime, 5, DType::fp64, [](std::int64_t) { return 1.0; });
    Work first = world.all_reduce(of_world, ReduceOp::sum);
    Work second = group->all_reduce(of_group, ReduceOp::sum);
    second.wait();
    first.wait();
    CHECK(of_world.get(4) == world.size());
    CHECK(of_group.get(4) == group->size());
  });
}

TEST_CASE("messages of an MPI job keep their order, whatever their lengths") {
  run_both_ways([](Runtime& runtime, Communicator& world) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    for (const std::int64_t count : {0, 1, 1000, 1001, 4096}) {
      const Tensor out = filled(runtime, count, DType::int32, [&](std::int64_t i) {
        return static_cast<double>(10 * world.rank() + i);
      });
      const Tensor in = runtime.allocate(MemoryCategory::comm, {count}, DType::int32);
      const P2pOp both[] = {{P2pOp::Kind::send, out, next}, {P2pOp::Kind::recv, in, previous}};
      world.batch(both).wait();
      for (std::int64_t i = 0; i < count; ++i) REQUIRE(in.get(i) == 10.0 * previous + i);
    }
  });
}

TEST_CASE("a message of another size is an error of communication, on a real network, too") {
  MessageRank process(std::make_unique<MpiTransport>(*job), options_of(false));
  ProcessRuntime runtime(process.rank());
  const auto world = process.world();
  // Too long and too short for who receives: each pair of ranks has one of them.
  const int pair = world->rank() / 2;
  if (2 * pair + 1 >= world->size()) return;
  const bool sends = world->rank() % 2 == 0;
  const std::int64_t expected = pair % 2 == 0 ? 3 : 5;
  const Tensor buffer = runtime.allocate(MemoryCategory::comm, {sends ? 4 : expected}, DType::fp32);
  if (sends) return world->send(buffer, world->rank() + 1).wait();
  try {
    world->recv(buffer, world->rank() - 1).wait();
    FAIL("nothing was found");
  } catch (const CommunicationError& error) {
    CHECK(error.diagnosis().code == "P2P_MISMATCH");
    CHECK(error.diagnosis().sides.at(0).ranks == std::vector<int>{world->rank()});
  }
}

}  // namespace shardsim

int main(int argc, char** argv) {
  const char* const piece = std::getenv("SHARDSIM_PIECE_BYTES");
  shardsim::MpiJob::Options options;
  if (piece != nullptr) options.piece_bytes = std::atoll(piece);
  shardsim::job = std::make_unique<shardsim::MpiJob>(options);
  const int failed = Catch::Session().run(argc, argv);
  // Others may wait for a rank that has failed: MPI ends them then.
  if (failed != 0) _exit(1);
  shardsim::job.reset();
  return 0;
}
