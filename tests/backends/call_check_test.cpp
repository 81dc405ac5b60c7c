#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"

// Calls that are refused or reported for what would otherwise be counted or moved wrongly.
namespace shardsim {

TEST_CASE("padding that is no part of the buffer, or stands beside uneven counts, is refused") {
  using Body = FiberWorld::RankBody;
  static constexpr std::int64_t kCounts[] = {1, 3};
  static constexpr ElementRange kMiddle[] = {{1, 3}};
  static constexpr ElementRange kBackwards[] = {{3, 4}, {1, 2}};
  const Body bad[] = {
      [](Runtime& runtime, Communicator& world) {
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        const Tensor own = full.view(world.rank(), {kCounts[world.rank()]});
        world.all_gather(full, own, {.counts = kCounts, .padding = 1}).wait();
      },
      [](Runtime& runtime, Communicator& world) {
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        world.all_reduce(full, ReduceOp::sum, {.padding = 5}).wait();
      },
      [](Runtime& runtime, Communicator& world) {
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        world.all_reduce(full, ReduceOp::sum, {.padding = -1}).wait();
      },
      [](Runtime& runtime, Communicator& world) {
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        if (world.rank() == 0) world.send(full, 1, {.padding = 1}).wait();
        if (world.rank() == 1) world.recv(full, 0, {.padding = 1}).wait();
      },
      [](Runtime& runtime, Communicator& world) {  // A message has no ranges of padding.
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        if (world.rank() == 0) world.send(full, 1, {.padding_at = kMiddle}).wait();
        if (world.rank() == 1) world.recv(full, 0, {.padding_at = kMiddle}).wait();
      },
      [](Runtime& runtime, Communicator& world) {  // Ranges that do not hold as many.
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        world.all_reduce(full, ReduceOp::sum, {.padding = 1, .padding_at = kMiddle}).wait();
      },
      [](Runtime& runtime, Communicator& world) {
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        world.all_reduce(full, ReduceOp::sum, {.padding_at = kMiddle}).wait();
      },
      [](Runtime& runtime, Communicator& world) {  // Not within the buffer.
        const Tensor full = runtime.allocate(MemoryCategory::comm, {2}, DType::fp32);
        world.all_reduce(full, ReduceOp::sum, {.padding = 2, .padding_at = kMiddle}).wait();
      },
      [](Runtime& runtime, Communicator& world) {  // Not ascending.
        const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
        world.all_reduce(full, ReduceOp::sum, {.padding = 2, .padding_at = kBackwards}).wait();
      },
  };
  for (const Body& body : bad) {
    const Diagnosis diagnosis = diagnosis_of(2, body);
    CHECK(diagnosis.code == "ARG_RANGE");
    CHECK(diagnosis.summary.find("padding") != std::string::npos);
  }
  const Diagnosis all_padding = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    world.all_reduce(full, ReduceOp::sum, {.padding = 4}).wait();
  });
  CHECK(all_padding.code == "NONE");
}

TEST_CASE("P9: members that fill up different elements are reported") {
  static constexpr ElementRange kFirst[] = {{0, 1}};
  static constexpr ElementRange kSecond[] = {{1, 2}};
  const Diagnosis diagnosis = diagnosis_of(3, [](Runtime& runtime, Communicator& world) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {6}, DType::fp32);
    CallOptions options{.padding = 1, .padding_at = kFirst};
    if (world.rank() == 1) options.padding_at = kSecond;
    world.reduce_scatter(full.view(0, {2}), full, ReduceOp::sum, options).wait();
  });
  CHECK(diagnosis.code == "COLL_COUNT");
  CHECK(diagnosis.sides.at(0).ranks == std::vector<int>{1});
}

TEST_CASE("P9: calls that are counted differently are reported, with what they are counted as") {
  const Diagnosis transfer = diagnosis_of(2, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    if (world.rank() == 0) world.send(buffer, 1, {.traffic = TrafficClass::scalar}).wait();
    if (world.rank() == 1) world.recv(buffer, 0).wait();
  });
  CHECK(transfer.code == "P2P_MISMATCH");
  CHECK(transfer.sides.at(0).action == "send fp32 x 4 to 1 as scalars");
  CHECK(transfer.sides.at(1).action == "recv fp32 x 4 from 0");
  const Diagnosis collective = diagnosis_of(3, [](Runtime& runtime, Communicator& world) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    const bool odd = world.rank() == 2;
    world
        .all_reduce(buffer, ReduceOp::sum,
                    {.traffic = odd ? TrafficClass::scalar : TrafficClass::payload})
        .wait();
  });
  CHECK(collective.code == "COLL_TRAFFIC");
  CHECK(collective.sides.at(0).ranks == std::vector<int>{2});
  CHECK(collective.sides.at(0).action == "all_reduce sum fp32 x 4 as scalars");
}

TEST_CASE("P9: both sides of a split mismatch are quoted with their own place") {
  int line_of_zero = 0;
  const Diagnosis diagnosis = diagnosis_of(2, [&](Runtime& runtime, Communicator& world) {
    const Tensor full = runtime.allocate(MemoryCategory::comm, {5}, DType::fp32);
    if (world.rank() == 0) {
      const std::int64_t send[] = {0, 5};
      const std::int64_t recv[] = {0, 0};
      line_of_zero = __LINE__ + 1;
      world.all_to_all(full.view(0, {0}), full, send, recv).wait();
    } else {
      const std::int64_t send[] = {0, 0};
      const std::int64_t recv[] = {4, 0};
      world.all_to_all(full.view(0, {4}), full.view(0, {0}), send, recv).wait();
    }
  });
  CHECK(diagnosis.code == "A2A_SPLIT");
  CHECK(diagnosis.sides.at(0).site.line == line_of_zero);
  CHECK(diagnosis.sides.at(1).site.line == line_of_zero + 4);
}

}  // namespace shardsim
