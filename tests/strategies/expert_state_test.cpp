#include <vector>

#include <catch2/catch.hpp>

#include "strategies/optimizer/optimizer.hpp"
#include "strategies/sharded_optimizer/held_state.hpp"

#include "tests/strategies/model_fixture.hpp"

// Which rank answers for which element of a model whose experts are shared: what checkpoints rest
// on.
namespace shardsim::test {
namespace {

ParallelOptions options_with(const MeshShape& mesh, int zero_stage) {
  ParallelOptions options;
  options.model = small_model("llama");
  options.model.seq_len = 4;
  options.model.num_layers = 3;
  options.model.sequence_parallel = mesh.tp > 1;
  options.model.moe.num_experts = 4;
  options.model.moe.experts_per_token = 2;
  options.model.moe.ffn_hidden_size = 6;
  options.model.moe.first_dense_layers = 1;
  options.mesh = mesh;
  options.zero_stage = zero_stage;
  options.sync.weight_dtype = options.sync.master_dtype = options.sync.gradient_dtype = DType::fp64;
  return options;
}

}  // namespace

TEST_CASE("ranks that share experts answer for every element of the model, each once") {
  const std::vector<MeshShape> meshes = {{.dp_shard = 4, .ep = 4},
                                         {.dp_shard = 4, .ep = 2},
                                         {.dp_shard = 2, .dp_replicate = 2, .ep = 2},
                                         {.dp_shard = 2, .tp = 2, .ep = 4},
                                         {.dp_shard = 2, .tp = 2, .ep = 1},
                                         {.dp_shard = 4, .etp = 2},
                                         {.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2},
                                         {.dp_shard = 3, .tp = 2, .pp = 3, .ep = 2}};
  for (const MeshShape& mesh : meshes) {
    for (int zero_stage = 0; zero_stage <= 3; ++zero_stage) {
      const std::unique_ptr<Optimizer> optimizer = make_optimizer("adam", {});
      const ParallelPlan plan(options_with(mesh, zero_stage), *optimizer);
      std::vector<std::vector<int>> answered;
      for (const ParameterSpec& spec : plan.whole().parameters()) {
        answered.emplace_back(static_cast<std::size_t>(spec.shape.numel()), 0);
      }
      for (int rank = 0; rank < mesh.size(); ++rank) {
        for_each_responsible_run(plan, mesh.place_of(rank), [&](const ResponsibleRun& run) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            ++answered[static_cast<std::size_t>(run.whole)]
                      [static_cast<std::size_t>(run.whole_first + i)];
          }
        });
      }
      CAPTURE(mesh.dp_shard, mesh.dp_replicate, mesh.tp, mesh.pp, mesh.ep, mesh.etp, zero_stage);
      int wrong = 0;
      for (const std::vector<int>& counts : answered) {
        for (const int count : counts) wrong += count == 1 ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

// An expert's elements are drawn by its number among all, whoever has it.
TEST_CASE("experts start with the same values under any degree") {
  ModelOptions options = options_with({}, 0).model;
  const std::unique_ptr<Model> whole = make_model(options);
  options.moe.expert_parallel = 2;
  const std::unique_ptr<Model> part = make_model(options);
  const auto values_of = [](const ParameterSpec& spec, int index) {
    const Tensor values =
        Tensor::allocate(nullptr, MemoryCategory::params, spec.shape, DType::fp64, false);
    initialize(spec, index, 5, 0, values.flat());
    return values;
  };
  int compared = 0;
  for (std::size_t i = 0; i < whole->parameters().size(); ++i) {
    const ParameterSpec& spec = part->parameters()[i];
    CHECK(spec.whole_shape() == whole->parameters()[i].shape);
    if (!spec.expert) continue;
    ++compared;
    CHECK(spec.is_split_over(SplitRanks::expert));
    const Tensor all = values_of(whole->parameters()[i], 0);
    for (int index = 0; index < 2; ++index) {
      const Tensor mine = values_of(spec, index);
      for (std::int64_t j = 0; j < mine.numel(); ++j) {
        CHECK(mine.get(j) == all.get(index * mine.numel() + j));
      }
    }
  }
  CHECK(compared == 6);
}

}  // namespace shardsim::test
