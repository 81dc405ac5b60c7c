#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// Reduced gradients in host memory beside tensor, sequence and pipeline parallelism: some of them
// are summed again, on the device. Their bytes on the host link, and the memory they lie in, are
// counted in full.
namespace shardsim::test {

namespace {

constexpr std::int64_t kBytes = 8;              // Per element: all is fp64.
constexpr std::int64_t kPicosecondsAByte = 40;  // The fixture's link; a launch takes no time.
constexpr std::int64_t kMicrobatches = 2;

// pp 2, tp 2, dp 2, with everything that reads gradients between their sum and the update.
Setup setup_at(int zero_stage, bool offloads) {
  Setup setup = setup_of("hybrid_sharded", 8, "gpt2");
  setup.choice = hybrid_sharded(2, 2, 2, zero_stage);
  setup.change_model = [](ModelOptions& model) {
    model.sequence_parallel = true;
    model.seq_len = 6;  // Positions are divided over tensor-parallel ranks.
  };
  // A key's bias has a gradient of rounding noise only, which Adam would blow up.
  setup.optimizer_options.epsilon = 1e-4;
  setup.training.num_microbatches = kMicrobatches;
  setup.training.max_grad_norm = 0.1;
  setup.training.loss_scaling = {.mode = LossScaling::Mode::constant, .initial_scale = 1024.0};
  setup.configuration.cpu_offload_gradients = offloads;
  setup.configuration.cpu_offload_optimizer = offloads;
  return setup;
}

// Sums over all data-parallel ranks of a stage and tensor-parallel rank, in bytes.
struct Expected {
  std::int64_t owned = 0;    // All gradients, with what fills up chunks.
  std::int64_t partial = 0;  // Those summed over tensor-parallel ranks.
  std::int64_t tied = 0;     // Those summed over first and last stage.
};
struct Measured {
  std::int64_t to_device = 0;
  std::int64_t to_host = 0;
  std::int64_t in_sums = 0;  // Buffers on the device while tensor-parallel ranks sum.
  std::int64_t in_ties = 0;  // Gradients on the device while stages sum.
  std::int64_t on_host = 0;
  std::int64_t on_device = 0;  // After the step.
};

Expected expected_of(const ParallelPlan& plan, const MeshPlace& place) {
  Expected expected{.owned = plan.layout(place.pp).padded() * kBytes};
  for (const ParameterSpec& spec : plan.part(place).model->parameters()) {
    if (spec.sum_over_tp) expected.partial += spec.shape.numel() * kBytes;
    if (spec.tied) expected.tied += spec.shape.numel() * kBytes;
  }
  return expected;
}

std::int64_t bytes_at(const RankTrace& trace, MemoryCategory category, Time time) {
  std::int64_t bytes = 0;
  for (const MemoryPoint& point : trace.memory) {
    if (point.category == category && !(time < point.time)) bytes = point.bytes;
  }
  return bytes;
}

void add_measured(Measured& sum, RankState& rank) {
  constexpr auto kComm = MemoryCategory::comm;
  constexpr auto kGrads = MemoryCategory::grads;
  const RankTrace& trace = *rank.trace();
  for (const TraceTrack& track : trace.tracks) {
    for (const TraceSlice& slice : track.slices) {
      const std::int64_t bytes = (slice.end - slice.begin).picoseconds() / kPicosecondsAByte;
      if (slice.name == std::string("copy_to_device")) sum.to_device += bytes;
      if (slice.name == std::string("copy_to_host")) sum.to_host += bytes;
      if (slice.label == "sequence-parallel gradients") {
        sum.in_sums += bytes_at(trace, kComm, slice.begin) - rank.ledger().now(kComm);
        CHECK(bytes_at(trace, kGrads, slice.begin) == 0);
      }
      if (slice.label == "tied embedding gradient") {
        sum.in_ties += bytes_at(trace, kGrads, slice.begin);
      }
    }
  }
  sum.on_device += rank.ledger().now(kGrads);
  MemoryUse only_gradients{};
  only_gradients[static_cast<std::size_t>(kGrads)] = rank.host_ledger().now(kGrads);
  CHECK(rank.host_ledger().category_peaks() == only_gradients);
  sum.on_host += rank.host_ledger().now(kGrads);
}

}  // namespace

TEST_CASE("Configuration: offloaded gradients are summed over tensor-parallel ranks and stages",
          "[config]") {
  for (const int stage : {2, 3}) {
    INFO("stage " << stage);
    const Setup offloaded = setup_at(stage, true);
    const WholeState whole = train(offloaded, 3);
    const bool same = whole == train(setup_at(stage, false), 3);
    CHECK(same);
    Setup alone = offloaded;
    alone.change_model = [](ModelOptions& model) { model.seq_len = 6; };
    CHECK(worst_error(whole, train_alone(alone, 3)) <= kOracleBound);
  }
}

TEST_CASE("Configuration: each use of an offloaded gradient crosses the host link, and no other",
          "[config]") {
  for (const int stage : {2, 3}) {
    Setup setup = setup_at(stage, true);
    setup.configuration.cpu_offload_optimizer = false;  // Gradients alone are counted.
    setup.world.traced_ranks = {0, 1, 2, 3, 4, 5, 6, 7};
    const MeshShape mesh = mesh_of(setup.choice, setup.ranks);
    std::vector<Expected> expected(8);
    std::vector<std::uint64_t> hashes;
    for (const bool has_data : {false, true}) {
      setup.world.has_data = has_data;
      FiberWorld world(world_of(setup));
      std::vector<Measured> measured(4);
      world.run([&](Runtime& runtime, Communicator& communicator) {
        const auto optimizer = make(setup, runtime, communicator);
        const MeshPlace place = optimizer->model().place();
        optimizer->step();
        expected[static_cast<std::size_t>(2 * place.pp + place.tp)] =
            expected_of(optimizer->model().plan(), place);
        // While gradients are there.
        add_measured(measured[static_cast<std::size_t>(2 * place.pp + place.tp)],
                     world.engine().rank(communicator.rank()));
      });
      for (std::size_t i = 0; i < 4; ++i) {
        INFO("stage " << stage << ", data " << has_data << ", pp " << i / 2 << ", tp " << i % 2);
        const auto [owned, partial, tied] = expected[i];
        CHECK(partial > 0);
        CHECK(tied > 0);
        // Microbatches add to what is there; then overflow, norm and update read all.
        CHECK(measured[i].to_device == (kMicrobatches - 1 + 3) * owned + partial + tied);
        CHECK(measured[i].to_host == kMicrobatches * owned + partial + tied);
        CHECK(measured[i].in_sums == partial);
        CHECK(measured[i].in_ties == tied);
        CHECK(measured[i].on_host == owned);
        CHECK(measured[i].on_device == 0);
      }
      hashes.push_back(world.engine().trace_hash());
    }
    CHECK(hashes.front() == hashes.back());
    CHECK(mesh.dp_shard == 2);
  }
}

}  // namespace shardsim::test
