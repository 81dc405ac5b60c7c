#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// The models of the specification, and the optimizers, by the functions that make them.
namespace shardsim::test {

namespace {

using MakeModel =
    std::function<std::unique_ptr<ShardedModel>(Runtime&, Communicator&, const ParallelOptions&)>;

struct NamedModel {
  std::string name;
  int ranks;
  MeshShape mesh;
  MakeModel make;
};

std::vector<NamedModel> named_models() {
  const ShardingConfiguration small{.minimum_parameter_group_size = 0};
  return {{"fsdp",
           3,
           {.dp_shard = 3},
           [=](Runtime& runtime, Communicator& world, const ParallelOptions& problem) {
             return make_sharded_model("fsdp", runtime, world, problem, small);
           }},
          {"tensor parallel",
           4,
           {.tp = 4},
           [=](Runtime& runtime, Communicator& world, const ParallelOptions& problem) {
             return make_sharded_model("tensor_parallel", runtime, world, problem, small);
           }},
          {"pipeline parallel",
           3,
           {.pp = 3},
           [=](Runtime& runtime, Communicator& world, const ParallelOptions& problem) {
             return make_sharded_model("pipeline_parallel", runtime, world, problem, small);
           }},
          {"hybrid",
           24,
           {.dp_shard = 4, .tp = 2, .pp = 3, .order = RankOrder::dp_tp_pp},
           [=](Runtime& runtime, Communicator& world, const ParallelOptions& problem) {
             return make_hybrid_sharded_model(runtime, world, problem, small, 3, 2);
           }},
          {"hybrid by default",
           2,
           {.dp_shard = 2, .order = RankOrder::dp_tp_pp},
           [=](Runtime& runtime, Communicator& world, const ParallelOptions& problem) {
             return make_hybrid_sharded_model(runtime, world, problem, small);
           }}};
}

// 12 samples in a step, at any layout.
Setup alone() {
  Setup setup = setup_of("ddp", 1, "gpt2");
  setup.optimizer = "sgd";
  setup.optimizer_options = {.learning_rate = ShardingConfiguration{}.learning_rate};
  setup.training.num_microbatches = 12;
  return setup;
}

void check_mesh(const MeshShape& is, const MeshShape& should) {
  CHECK(is.dp_shard == should.dp_shard);
  CHECK(is.tp == should.tp);
  CHECK(is.pp == should.pp);
  for (int rank = 0; rank < should.size(); ++rank) {
    CHECK(is.place_of(rank) == should.place_of(rank));
  }
}

}  // namespace

TEST_CASE("ShardedModel: each of the named models trains the parameters that one device trains") {
  const WholeState reference = train_alone(alone(), 3);
  for (const NamedModel& named : named_models()) {
    INFO(named.name);
    Setup setup = alone();
    setup.ranks = named.ranks;
    setup.training.num_microbatches = 12 / named.mesh.data_size();
    FiberWorld world(world_of(setup));
    WholeState trained;
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const std::unique_ptr<ShardedModel> model = named.make(runtime, everyone, problem_of(setup));
      check_mesh(model->plan().options().mesh, named.mesh);
      for (int step = 0; step < 3; ++step) static_cast<void>(model->train_step());
      const std::vector<Tensor> whole = model->gather_full_parameters();
      if (everyone.rank() != 0) return;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        std::vector<double>& values =
            trained["parameter/" + model->wrapped_model().parameters()[i].name];
        for (std::int64_t k = 0; k < whole[i].numel(); ++k) values.push_back(whole[i].get(k));
      }
    });
    CHECK(worst_error(trained, reference) <= 1e-9);  // The oracle's bound.
  }
}

TEST_CASE("H1: make_hybrid_sharded_optimizer takes pp, tp and dp in this order, and has defaults") {
  const auto mesh_made = [](int ranks, const auto&... degrees) {
    Setup setup = alone();
    setup.ranks = ranks;
    setup.training.num_microbatches = 12;
    MeshShape mesh;
    FiberWorld world(world_of(setup));
    world.run([&](Runtime& runtime, Communicator& everyone) {
      const auto optimizer = make_hybrid_sharded_optimizer(
          runtime, everyone, problem_of(setup), make_optimizer("sgd", {}), {}, {}, degrees...);
      mesh = optimizer->model().plan().options().mesh;
    });
    return mesh;
  };
  check_mesh(mesh_made(2), {.dp_shard = 2, .order = RankOrder::dp_tp_pp});
  check_mesh(mesh_made(6, 3, 2), {.tp = 2, .pp = 3, .order = RankOrder::dp_tp_pp});
  check_mesh(mesh_made(12, 3, 2, 2),
             {.dp_shard = 2, .tp = 2, .pp = 3, .order = RankOrder::dp_tp_pp});
}

TEST_CASE("gradients left local are reduced by synchronize_gradients, over every axis") {
  for (const char* name : {"tensor_parallel", "pipeline_parallel", "hybrid_sharded"}) {
    Setup setup = setup_of(name, name == std::string("pipeline_parallel") ? 3 : 4, "gpt2");
    if (setup.choice.name == "hybrid_sharded") setup.choice = hybrid_sharded(1, 2, 2);
    setup.configuration.auto_sync_gradients = false;
    setup.training.num_microbatches = 12 / mesh_of(setup.choice, setup.ranks).data_size();
    WholeState reduced;
    on_ranks(setup, [&](ShardedOptimizer& optimizer) {
      optimizer.model().compute_gradients();
      optimizer.model().synchronize_gradients();
      add_gradients_to(reduced, optimizer);
      optimizer.model().apply_gradients();
    });
    INFO(name);
    Setup one = setup_of("ddp", 1, "gpt2");
    one.training.num_microbatches = 12;
    CHECK(worst_error(reduced, gradients_alone(one, 0)) <= 1e-9);
  }
}

}  // namespace shardsim::test
