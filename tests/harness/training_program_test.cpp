#include "sim/harness/training_program.hpp"

#include <memory>
#include <utility>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/pipeline/schedule_table.hpp"

#include "sim/harness/check.hpp"

// Strategies in our own training loop, ours and a user's.
namespace shardsim {
namespace {

CheckOptions at(std::vector<int> ranks) {
  CheckOptions options{.ranks = std::move(ranks)};
  options.explore.mode = ExploreMode::none;  // All of these name their peers.
  return options;
}

// A user's own: what another synchronization has reduced, bent.
class Bent final : public GradientSyncWrapper {
 public:
  Bent(std::unique_ptr<GradientSync> sync, double factor, bool first_only)
      : GradientSyncWrapper(std::move(sync)), factor_(factor), first_(first_only) {}

  void finish_gradients() override {
    inner_.finish_gradients();
    inner_.visit(StateKind::gradient, [this](const StatePiece& piece) {
      if (first_ && piece.parameter > 0) return;
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
        piece.values.set(i, factor_ * piece.values.get(i));
      }
    });
  }

 private:
  double factor_;
  bool first_;
};

TrainingStrategy bent(int zero_stage, double factor, bool first_only = false) {
  TrainingStrategy strategy{.zero_stage = zero_stage};
  strategy.make_sync = [=](const SyncPlan& plan, Runtime& runtime, Mesh& mesh) {
    return std::make_unique<Bent>(make_gradient_sync(zero_stage, plan, runtime, mesh), factor,
                                  first_only);
  };
  return strategy;
}

}  // namespace

TEST_CASE("every ZeRO stage trains as one device, at any number of ranks, clipped and not") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const double clip : {0.0, 0.01}) {
      TrainingStrategy strategy{.zero_stage = stage};
      strategy.max_grad_norm = clip;
      const CheckReport report = check(training_program(strategy), at({1, 2, 3, 4, 6}));
      INFO("stage " << stage << ": " << report.to_text());
      CHECK(report.passed());
      CHECK(report.warnings.empty());
    }
  }
}

TEST_CASE("the model that is there by default can be cut over two ranks") {
  for (int stage = 0; stage <= 3; ++stage) {
    TrainingStrategy strategy{.zero_stage = stage};
    strategy.mesh = [](int ranks) { return MeshShape{.dp_shard = ranks / 2, .tp = 2}; };
    const CheckReport report = check(training_program(strategy), at({2, 4, 6}));
    INFO("stage " << stage << ": " << report.to_text());
    CHECK(report.passed());
  }
}

TEST_CASE("a pipeline, and hybrid sharding, train as one device") {
  TrainingStrategy strategy;
  strategy.model.num_layers = 4;
  strategy.mesh = [](int ranks) { return MeshShape{.dp_shard = ranks / 2, .pp = 2}; };
  CHECK(check(training_program(strategy), at({2, 4, 6})).to_text().find("right on") !=
        std::string::npos);
  strategy.zero_stage = 3;
  strategy.mesh = [](int ranks) { return MeshShape{.dp_shard = ranks / 2, .dp_replicate = 2}; };
  CHECK(check(training_program(strategy), at({4, 6, 12})).to_text().find("right on") !=
        std::string::npos);
}

TEST_CASE("a pipeline schedule of one's own is checked by its name in the field") {
  TrainingStrategy strategy;
  strategy.model.num_layers = 4;
  strategy.mesh = [](int ranks) { return MeshShape{.pp = ranks}; };
  strategy.make_schedule = [](const PipelineShape& shape) { return make_schedule("gpipe", shape); };
  CHECK(check(training_program(strategy), at({2})).passed());
  strategy.make_schedule = [](const PipelineShape& shape) {
    PipelineSchedule schedule = make_schedule("gpipe", shape);
    schedule.actions[1].pop_back();
    return schedule;
  };
  const CheckReport report = check(training_program(strategy), at({2}));
  REQUIRE(report.failure);
  CHECK(report.failure->code.rfind("SCHEDULE_", 0) == 0);
}

TEST_CASE("a synchronization of one's own is right where it is right") {
  CHECK(check(training_program(bent(0, 1.0)), at({2, 3})).passed());
}

TEST_CASE("gradients that are all twice as large are found, and named") {
  for (const int stage : {0, 2, 3}) {
    const CheckReport report = check(training_program(bent(stage, 2.0)), at({1, 2, 3}));
    REQUIRE(report.failure);
    INFO(report.to_text());
    CHECK(report.failure->code == "GRAD_SCALE");
    CHECK(report.token->ranks == 2);
    CHECK(report.failure->summary.find("2.000 times that of one device (the size of ") !=
          std::string::npos);
    CHECK(report.failure->summary.find("6 of 6") != std::string::npos);
  }
}

TEST_CASE("one parameter's gradient that is a half is told from all of them") {
  const CheckReport report = check(training_program(bent(0, 0.5, true)), at({3}));
  REQUIRE(report.failure);
  CHECK(report.failure->code == "GRAD_SCALE");
  CHECK(report.failure->summary.find("so are 1 of 6") != std::string::npos);
}

TEST_CASE("a layout that does not fit is a failure of the program, with its fix") {
  const CheckReport report = check(training_program({}), at({5}));
  REQUIRE(report.failure);
  CHECK(report.failure->code == "RANK_FAILED");
  CHECK(report.failure->summary.find("do not divide 12 microbatches") != std::string::npos);
  CHECK(!report.failure->hint.empty());
}

}  // namespace shardsim
