#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/whole_state.hpp"

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"

#include "tests/backends/all_backends.hpp"

// Whole trainings over collectives that are made of messages, and over NCCL's stand-in: the same
// bits and bytes as in the simulation, since the strategies are the same code.
namespace shardsim {
namespace {

// All that a rank shows of its gradients and its state, step by step.
class Image final : public TrainingObserver {
 public:
  void gradients_ready(std::int64_t, const GradientSync& sync) override {
    keep(sync, StateKind::gradient);
  }
  void step_ends(std::int64_t, const GradientSync& sync, std::optional<double> loss) override {
    keep(sync, StateKind::parameter);
    keep(sync, StateKind::optimizer_state);
    if (loss) values_.push_back(*loss);
  }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  void keep(const GradientSync& sync, StateKind kind) {
    sync.visit(kind, [&](const StatePiece& piece) {
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
        values_.push_back(piece.values.get(i));
      }
    });
  }

  std::vector<double> values_;
};

struct Rank {
  Image image;
  std::int64_t peak_bytes = 0;
  std::int64_t bytes_sent = 0;  // Padding and scalars included.
};

// Too many to be printed. Sums that overflow may be NaN in both.
std::size_t num_different(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) ++different;
  }
  return different;
}

std::int64_t all_sent(const TrafficCounters& counters) {
  return counters.payload_sent + counters.padding_sent + counters.scalar_sent;
}

void require_equal(const std::vector<Rank>& simulated, const std::vector<Rank>& other) {
  for (std::size_t rank = 0; rank < simulated.size(); ++rank) {
    CHECK(!simulated[rank].image.values().empty());
    CHECK(num_different(simulated[rank].image.values(), other[rank].image.values()) == 0);
    CHECK(simulated[rank].peak_bytes == other[rank].peak_bytes);
    CHECK(simulated[rank].bytes_sent > 0);
    CHECK(simulated[rank].bytes_sent == other[rank].bytes_sent);
  }
}

void require_equal_trainings(const std::string& name) {
  INFO(name);
  const Scenario scenario =
      load_scenario("scenarios/verify-" + name + ".json", {"execution.steps=2"});
  const Experiment experiment = compile(scenario);
  const ParallelPlan& plan = experiment.plan();
  const int size = static_cast<int>(scenario.system.ranks);
  const auto body = [&](std::vector<Rank>& ranks) {
    return [&](Runtime& runtime, Communicator& world) {
      Rank& rank = ranks[static_cast<std::size_t>(world.rank())];
      Mesh mesh(world, plan.options().mesh);
      plan.train_rank(runtime, mesh, rank.image);
      rank.peak_bytes = runtime.ledger()->peak();
    };
  };
  const auto simulated = [&](Algorithm algorithm) {
    std::vector<Rank> ranks(static_cast<std::size_t>(size));
    FiberWorld world({.cluster = test_cluster(size),
                      .reduction_order = ReductionOrder::wire,
                      .all_reduce_algorithm = algorithm});
    world.run(body(ranks));
    for (const FiberGroup& group : world.groups()) {
      for (int member = 0; member < group.size(); ++member) {
        ranks[static_cast<std::size_t>(group.world_rank(member))].bytes_sent +=
            all_sent(group.counters(member));
      }
    }
    return ranks;
  };
  const auto add_traffic_to = [](std::vector<Rank>& ranks) {
    return [&ranks](const ProcessBackend& rank) {
      for (const GroupTraffic& traffic : rank.traffic()) {
        ranks[static_cast<std::size_t>(rank.rank())].bytes_sent += all_sent(traffic.counters);
      }
    };
  };
  std::vector<Rank> exchanged(static_cast<std::size_t>(size));
  run_message_ranks(size, body(exchanged), {.inspect = add_traffic_to(exchanged)});
  require_equal(simulated(Algorithm::automatic), exchanged);
  std::vector<Rank> over_nccl(static_cast<std::size_t>(size));
  run_nccl_ranks(size, body(over_nccl), {.inspect = add_traffic_to(over_nccl)});
  require_equal(simulated(Algorithm::ring), over_nccl);
}

}  // namespace

TEST_CASE(
    "trainings over messages and over NCCL have the simulation's bits, bytes and memory, on every "
    "rank") {
  for (const char* name : {"gpt-zero2", "llama-hsdp", "llama-fsdp4-tp2", "gpt-tp2-pp2-dp2-zero1",
                           "llama-tp2-pp2-dp2-interleaved", "gpt-tp2-pp2-dp2-fp16"}) {
    require_equal_trainings(name);
  }
}

}  // namespace shardsim
