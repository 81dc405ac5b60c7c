#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/training/parallel_plan.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Whoever takes part, the model is that of one device; who is away has nothing, and asks nothing.
namespace shardsim::test {

namespace {

// The state of a rank after the steps it took part in.
struct SeenWhileElastic {
  std::map<std::int64_t, Values> weights;
  std::map<std::int64_t, Values> states;
};

class ElasticWatcher final : public TrainingObserver {
 public:
  explicit ElasticWatcher(SeenWhileElastic& seen) : seen_(seen) {}
  void step_ends(std::int64_t step, const GradientSync& sync, std::optional<double>) override {
    const auto keep = [&](StateKind kind, Values& values) {
      sync.visit(kind, [&](const StatePiece& piece) { values.push_back(values_of(piece.values)); });
    };
    keep(StateKind::parameter, seen_.weights[step]);
    keep(StateKind::optimizer_state, seen_.states[step]);
  }

 private:
  SeenWhileElastic& seen_;
};

struct ElasticRun {
  std::vector<SeenWhileElastic> ranks;
  std::vector<std::int64_t> sent;
  std::uint64_t trace_hash = 0;
};

ElasticRun run_elastic(const TrainingCase& c, const std::vector<int>& members, bool has_data) {
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(c.optimizer, c.optimizer_options);
  ParallelOptions problem = options_of(c);
  problem.members = members;
  const ParallelPlan plan(problem, *optimizer);
  FiberOptions options = c.world;
  options.has_data = has_data;
  options.cluster = test_cluster(c.mesh.size());
  ElasticRun result;
  result.ranks.resize(static_cast<std::size_t>(c.mesh.size()));
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    Mesh mesh(everyone, c.mesh);
    const RankState& rank = world.engine().rank(everyone.rank());
    TrainingObserver unseen;
    ElasticWatcher watcher(result.ranks[static_cast<std::size_t>(everyone.rank())]);
    plan.train_rank(runtime, mesh, has_data ? static_cast<TrainingObserver&>(watcher) : unseen);
    if (rank.ledger().total_now() != 0) throw std::logic_error("training leaves memory behind");
  });
  result.sent = world.sent_by_rank();
  result.trace_hash = world.engine().trace_hash();
  return result;
}

std::vector<int> draw_members(const TrainingCase& c) {
  std::vector<int> members;
  const int runs = static_cast<int>(c.training.num_microbatches) * c.mesh.dp_shard;
  for (std::int64_t step = 0; step < c.training.steps; ++step) {
    members.push_back(*rc::gen::inRange(1, std::min(c.mesh.dp_shard, runs) + 1));
  }
  return members;
}

TrainingCase draw_elastic_case() {
  TrainingCase c = draw_case();
  c.zero_stage = 0;
  c.mesh = {*rc::gen::inRange(2, 7), 1};
  c.training.steps = *rc::gen::inRange<std::int64_t>(1, 6);
  return c;
}

}  // namespace

TEST_CASE("members of every step hold the same bits, and nobody else anything") {
  check_property(60, [] {
    const TrainingCase c = draw_elastic_case();
    const std::vector<int> members = draw_members(c);
    RC_LOG() << describe(c) << "\n";
    const ElasticRun run = run_elastic(c, members, true);
    for (std::int64_t step = 0; step < c.training.steps; ++step) {
      for (int rank = 0; rank < c.mesh.dp_shard; ++rank) {
        const SeenWhileElastic& seen = run.ranks[static_cast<std::size_t>(rank)];
        const bool is_member = rank < members[static_cast<std::size_t>(step)];
        RC_ASSERT((seen.weights.count(step) > 0) == is_member);
        if (!is_member) continue;
        RC_ASSERT(seen.weights.at(step) == run.ranks[0].weights.at(step));
        RC_ASSERT(seen.states.at(step) == run.ranks[0].states.at(step));
      }
    }
    RC_ASSERT(run.trace_hash == run_elastic(c, members, false).trace_hash);
  });
}

TEST_CASE("on whole numbers it is the model of one device, whoever takes part") {
  check_property(60, [] {
    TrainingCase c = draw_elastic_case();
    c.name = "integer mlp";
    c.model = small_model("integer mlp");
    c.model.num_layers = 1;
    c.mesh.dp_shard = *rc::gen::element(2, 4);
    c.optimizer = "sgd";
    c.optimizer_options = {.learning_rate = 0.0625, .weight_decay = 0.0};
    c.training.steps = 2;
    c.training.num_microbatches = 2;
    c.training.micro_batch_size = 1;
    c.training.ignore_fraction = 0.0;
    const std::vector<int> members = draw_members(c);
    RC_LOG() << describe(c) << "\n";
    const ElasticRun changing = run_elastic(c, members, true);
    const ElasticRun steady = run_elastic(c, {c.mesh.dp_shard}, true);
    RC_ASSERT(changing.ranks[0].weights == steady.ranks[0].weights);
  });
}

TEST_CASE("those who join cost one broadcast of weights and state, with labels of their own") {
  TrainingCase c;
  c.mesh = {4, 1};
  c.optimizer = "adam";
  c.training.steps = 3;
  const std::int64_t bytes = 8 * num_parameters(*make_model(c.model));
  const auto total = [&](const std::vector<int>& members) {
    std::int64_t sum = 0;
    for (const std::int64_t sent : run_elastic(c, members, false).sent) sum += sent;
    return sum;
  };
  // A sum of all gradients over n members: 2 (n - 1) times their bytes.
  CHECK(total({4, 4, 4}) == 3 * 2 * 3 * bytes);
  CHECK(total({4, 2, 2}) == 2 * (3 + 1 + 1) * bytes);
  // Weights and two moments go to three others.
  CHECK(total({4, 2, 4}) == 2 * (3 + 1 + 3) * bytes + 3 * 3 * bytes);
  CHECK(total({1, 1, 2}) == 2 * bytes + 3 * bytes);
}

}  // namespace shardsim::test
