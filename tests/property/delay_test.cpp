#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// P5: a rank that is held up changes when things happen, and nothing of what is computed.
namespace shardsim::test {

namespace {

// Before whatever it is asked, a rank may lose up to as much time as several layers take.
class HeldUp final : public GradientSyncWrapper {
 public:
  HeldUp(GradientSync& inner, Runtime& runtime, std::uint64_t seed, int rank)
      : GradientSyncWrapper(inner),
        runtime_(runtime),
        stream_(seed, "delays of rank " + std::to_string(rank)) {}

  void begin_step() override { late().begin_step(); }
  void before_forward(int module) override { late().before_forward(module); }
  void after_forward(int module) override { late().after_forward(module); }
  void before_backward(int module) override { late().before_backward(module); }
  void after_backward(int module) override { late().after_backward(module); }
  void gradient_ready(int parameter) override { late().gradient_ready(parameter); }
  void after_weight_gradients(int module) override { late().after_weight_gradients(module); }
  void finish_gradients() override { late().finish_gradients(); }
  void apply_optimizer(double gradient_scale, std::int64_t step) override {
    late().apply_optimizer(gradient_scale, step);
  }

 private:
  GradientSync& late() {
    constexpr std::uint64_t kMostBytes = 1 << 16;
    if (stream_.below(++count_, 3) != 0) return inner_;
    const auto bytes = static_cast<std::int64_t>(stream_.below(++count_, kMostBytes));
    runtime_.compute({"delay", ComputeKind::memory_bound, DType::fp32, 0, bytes}, [] {});
    return inner_;
  }

  Runtime& runtime_;
  RandomStream stream_;
  std::uint64_t count_ = 0;
};

TrainingCase held_up(TrainingCase c, std::uint64_t seed) {
  c.wrap_sync = [seed](GradientSync& inner, Runtime& runtime, int rank) {
    return std::make_unique<HeldUp>(inner, runtime, seed, rank);
  };
  return c;
}

// Values, bytes and calls are the same, no rank is ready earlier. Returns how many are later.
int require_only_later(const TrainingCase& c, const TrainingCase& late) {
  const TrainingResult plain = run(c);
  const TrainingResult slow = run(late);
  for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
    INFO(describe(c) << ", step " << step);
    REQUIRE(first_difference(merge(c, plain, step), merge(late, slow, step)).empty());
  }
  INFO(describe(c));
  REQUIRE(plain.sent_by_rank == slow.sent_by_rank);
  int later = 0;
  for (std::size_t rank = 0; rank < plain.ranks.size(); ++rank) {
    REQUIRE(slow.ranks[rank].end >= plain.ranks[rank].end);
    later += slow.ranks[rank].end > plain.ranks[rank].end ? 1 : 0;
  }
  return later;
}

TrainingCase layout(const MeshShape& mesh, int zero_stage, const std::string& schedule = "1f1b",
                    int num_chunks = 1) {
  TrainingCase c;
  c.name = "llama";
  c.model = small_model("llama");
  c.model.num_layers = 4;
  c.model.sequence_parallel = mesh.tp > 1;
  c.model.seq_len = 4;
  c.mesh = mesh;
  c.zero_stage = zero_stage;
  c.schedule = schedule;
  c.num_chunks = num_chunks;
  c.training.num_microbatches = 4;
  c.training.max_grad_norm = 0.1;
  c.training.ignore_fraction = 0.2;
  c.training.steps = 2;
  return c;
}

}  // namespace

TEST_CASE("P5: delays of any rank change times, never values, under any data-parallel strategy") {
  check_property(60, [] {
    TrainingCase c = draw_case();
    c.world.reduction_order = *rc::gen::element(ReductionOrder::rank, ReductionOrder::wire);
    const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1000000);
    RC_LOG() << describe(c) << ", delays " << seed << "\n";
    static_cast<void>(require_only_later(c, held_up(c, seed)));
  });
}

TEST_CASE("P5: delays of any rank change times, never values, under any layout and schedule") {
  const std::vector<TrainingCase> layouts = {
      layout({.dp_shard = 2, .tp = 2}, 3),
      layout({.dp_shard = 2, .pp = 2}, 2, "gpipe"),
      layout({.dp_shard = 2, .tp = 2, .pp = 2}, 1, "1f1b"),
      layout({.dp_shard = 2, .pp = 2}, 1, "zb_h1"),
      layout({.tp = 2, .pp = 2}, 0, "interleaved_1f1b", 2),
      layout({.dp_shard = 2, .dp_replicate = 2, .pp = 2}, 3, "looped_bfs", 2)};
  for (const TrainingCase& c : layouts) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CHECK(require_only_later(c, held_up(c, seed)) == c.mesh.size());
    }
  }
}

}  // namespace shardsim::test
