#include <algorithm>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/pipeline/schedule.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

// Stragglers in the engine: what they compute takes longer, and others wait for it.
namespace shardsim::test {
namespace {

constexpr std::int64_t kForward = 3;  // Picoseconds, one per operation.
constexpr std::int64_t kBackward = 7;

// Messages cost nothing, and an operation of n flops n ps.
FiberOptions free_network(int ranks, std::vector<double> slowdown) {
  FiberOptions options{.cluster = test_cluster(ranks), .has_data = false, .buffered_sends = true};
  options.cluster.intra_node = {.bytes_per_s = 1e300, .latency_s = 0.0};
  options.cluster.faults =
      std::make_shared<const MachineFaults>(MachineFaults{.slowdown = std::move(slowdown)});
  return options;
}

class PipelineRank {
 public:
  PipelineRank(Runtime& runtime, Communicator& world)
      : runtime_(runtime),
        rank_(world.rank()),
        last_(world.size() - 1),
        down_(world.split(0, rank_, "down")),
        up_(world.split(0, rank_, "up")),
        message_(runtime.allocate(MemoryCategory::comm, {1}, DType::int8)) {}

  void run(const Action& action) {
    if (action.kind == ActionKind::forward) {
      if (rank_ > 0) down_->recv(message_, rank_ - 1).wait();
      compute("forward", kForward);
      if (rank_ < last_) down_->send(message_, rank_ + 1).wait();
    } else {
      if (rank_ < last_) up_->recv(message_, rank_ + 1).wait();
      compute("backward", kBackward);
      if (rank_ > 0) up_->send(message_, rank_ - 1).wait();
    }
  }

 private:
  void compute(const char* name, std::int64_t flops) {
    runtime_.compute({name, ComputeKind::matmul, DType::fp32, flops, 0}, [] {});
  }

  Runtime& runtime_;
  int rank_;
  int last_;
  std::unique_ptr<Communicator> down_;
  std::unique_ptr<Communicator> up_;
  Tensor message_;
};

std::int64_t makespan(int stages, int microbatches, std::vector<double> slowdown) {
  const PipelineSchedule schedule =
      make_schedule("1f1b", {.num_ranks = stages, .num_microbatches = microbatches});
  FiberWorld world(free_network(stages, std::move(slowdown)));
  world.run([&](Runtime& runtime, Communicator& everyone) {
    PipelineRank rank(runtime, everyone);
    for (const Action& action : schedule.actions[static_cast<std::size_t>(everyone.rank())]) {
      rank.run(action);
    }
  });
  Time end;
  for (int rank = 0; rank < stages; ++rank) end = max(end, world.engine().rank(rank).now());
  return end.picoseconds();
}

// 1F1B with one stage s that takes k times as long as the others, k >= 1 and p microbatches or
// more. It works all the time, but for what it waits for at both ends: the first microbatch has to
// come from stage 0, and its gradient to go back there; the w = p - 1 - s stages behind it answer
// to the first microbatch after w (F + B), meanwhile it does w forwards more, and at the end w
// backwards.
std::int64_t closed_form(int stages, int microbatches, int slow, std::int64_t k) {
  const std::int64_t both = kForward + kBackward;
  const std::int64_t behind = stages - 1 - slow;
  return slow * both + microbatches * k * both +
         behind * std::max<std::int64_t>(0, both - k * kForward) +
         behind * std::max<std::int64_t>(0, both - k * kBackward);
}

}  // namespace

TEST_CASE("a straggling stage lengthens 1f1b as the closed form says") {
  for (const int stages : {2, 4, 5}) {
    for (const int microbatches : {stages, 2 * stages + 1}) {
      for (int slow = 0; slow < stages; ++slow) {
        for (const std::int64_t k : {1, 2, 3, 5}) {
          INFO(stages << " stages, " << microbatches << " microbatches, stage " << slow << " x "
                      << k);
          std::vector<double> slowdown(static_cast<std::size_t>(stages), 1.0);
          slowdown[static_cast<std::size_t>(slow)] = static_cast<double>(k);
          CHECK(makespan(stages, microbatches, slowdown) ==
                closed_form(stages, microbatches, slow, k));
        }
      }
    }
  }
}

TEST_CASE("without stragglers it is (m + p - 1)(F + B)") {
  CHECK(makespan(4, 8, {}) == 11 * (kForward + kBackward));
  CHECK(makespan(4, 8, {1.0, 1.0, 1.0, 1.0}) == makespan(4, 8, {}));
}

TEST_CASE("an operation of a straggler is rounded once") {
  Device device = test_cluster(1).device;
  const ComputeOp op{"product", ComputeKind::matmul, DType::fp32, 1, 0};
  device.peak_flops_per_s.fill(1e12 / 1.4);  // 1.4 ps, which alone would be 1.
  CHECK(device.price(op) == ps(1));
  CHECK(device.price(op, 2.0) == ps(3));
  CHECK(device.price(op, 1.0) == device.price(op));
  device.launch_s = 10e-12;  // A straggler launches as slowly as it computes.
  CHECK(device.price(op, 2.0) == ps(23));
}

TEST_CASE("an all_reduce starts when the slowest member comes") {
  FiberOptions options = free_network(4, {1.0, 1.0, 2.5, 1.0});
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    const Tensor tensor = runtime.allocate(MemoryCategory::grads, {8}, DType::fp32);
    runtime.compute({"product", ComputeKind::matmul, DType::fp32, 1000, 0}, [] {});
    everyone.all_reduce(tensor, ReduceOp::sum).wait();
  });
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(world.engine().rank(rank).now() == ps(2500));
    CHECK(world.engine().rank(rank).split().compute == ps(rank == 2 ? 2500 : 1000));
  }
}

}  // namespace shardsim::test
