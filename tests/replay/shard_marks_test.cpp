#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"

#include "tests/app/folding_fixture.hpp"

// Shards without marks have one signature, which is found once for all of them.
namespace shardsim::test {

TEST_CASE("shards without marks have the same signature, and those that differ have marks") {
  const std::vector<std::vector<std::string>> layouts = {
      {"parallelism.zero_stage=0"},
      {"parallelism.zero_stage=1"},
      {"parallelism.zero_stage=3"},
      {"parallelism.zero_stage=1", "parallelism.tp=2", "parallelism.sequence_parallel=true"},
      {"parallelism.zero_stage=3", "parallelism.tp=2", "parallelism.sequence_parallel=true"},
      {"parallelism.zero_stage=1", "parallelism.pp=2", "model.tied_embeddings=true"},
      {"parallelism.zero_stage=2", "parallelism.dp_replicate=2"},
      {"parallelism.zero_stage=2", "parallelism.dp_replicate=2", "parallelism.tp=2"},
  };
  int marked = 0;
  int plain = 0;
  for (std::vector<std::string> overrides : layouts) {
    overrides.emplace_back("system.nodes=16");
    overrides.emplace_back("training.global_batch_size=1024");
    INFO(overrides.front() << " " << overrides[1]);
    const Experiment experiment =
        compile(load_scenario_text(small_plan("llama"), "test.json", overrides));
    const ParallelPlan& plan = experiment.plan();
    for (int stage = 0; stage < experiment.mesh().pp; ++stage) {
      const std::vector<bool> has_marks = shards_with_marks(plan, stage, WeightKind::dense);
      REQUIRE(static_cast<int>(has_marks.size()) == experiment.mesh().num_shards());
      std::optional<std::vector<std::int64_t>> without;
      for (std::size_t shard = 0; shard < has_marks.size(); ++shard) {
        const std::vector<std::int64_t> signature =
            shard_signature(plan, stage, static_cast<int>(shard), WeightKind::dense);
        ++(has_marks[shard] ? marked : plain);
        if (has_marks[shard]) continue;
        if (!without) without = signature;
        CHECK(signature == *without);
      }
    }
  }
  CHECK(marked >= 20);
  CHECK(plain >= 100);
}

}  // namespace shardsim::test
