#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/run.hpp"

// K6: weights that are kept and gathered in 8 bits alone. Bytes on the wire and in memory by
// formula, of recipes with scales of whole tensors, square blocks and other blocks.
namespace shardsim::test {
namespace {

using NarrowSettings = std::vector<std::string>;

// Two layers: of each the projections of attention and the MLP's are in low precision.
constexpr const char* kNarrow = R"({
  "schema_version": 1, "name": "narrow",
  "model": {"family": "llama", "num_layers": 2, "hidden_size": 256, "ffn_hidden_size": 512,
            "num_attention_heads": 4, "vocab_size": 1024, "seq_len": 256, "tied_embeddings": true},
  "system": {"preset": "dgx-b200", "nodes": 1},
  "parallelism": {"dp_shard": 8},
  "training": {"global_batch_size": 16, "micro_batch_size": 1, "precision": "fp8",
               "grad_reduce_dtype": "fp32", "max_grad_norm": 0}})";
constexpr std::int64_t kNarrowRanks = 8;
constexpr std::int64_t kMicrobatches = 2;
constexpr std::int64_t kLowWeights = 2 * (4 * 256 * 256 + 3 * 256 * 512);
constexpr std::int64_t kAllWeights = kLowWeights + 2 * 2 * 256 + 256 + 1024 * 256;

Result narrow_plan(const NarrowSettings& settings, bool is_narrow) {
  NarrowSettings all = settings;
  all.emplace_back("system.software=none");  // A framework's own tensors would hide them.
  if (is_narrow) all.emplace_back("training.quantized_parameters=true");
  return run_scenario(load_scenario_text(kNarrow, "narrow.json", all), {}).result;
}

std::int64_t metric_of(const Result& result, const char* name) {
  return static_cast<std::int64_t>(result.number(name).value());
}

// Bytes that all ranks send for a gather of so many on each.
constexpr std::int64_t gathered(std::int64_t bytes) { return (kNarrowRanks - 1) * bytes; }

struct NarrowRecipe {
  const char* name;
  const char* architecture;
  std::int64_t scales;       ///< Which owners agree on.
  std::int64_t scale_bytes;  ///< Sent with codes.
  std::int64_t copies;       ///< Those of codes, where weights stay.
};
const std::vector<NarrowRecipe> kNarrowRecipes = {
    {"delayed", "hopper", 2 * 7, 0, 2},
    {"tensorwise", "blackwell", 2 * 7, 0, 1},
    {"blockwise", "hopper", kLowWeights / (128 * 128), 0, 2},
    {"mxfp8", "blackwell", 0, kLowWeights / 32, 2}};

}  // namespace

TEST_CASE("K6: parameters that are gathered in 8 bits send a byte for each element") {
  for (const NarrowRecipe& recipe : kNarrowRecipes) {
    for (const int stage : {1, 2, 3}) {
      const bool is_square = recipe.scales > 0;
      if (stage == 2 && !is_square) continue;
      const NarrowSettings settings = {
          std::string("training.fp8_recipe=") + recipe.name,
          std::string("system.device.architecture=") + recipe.architecture,
          "parallelism.zero_stage=" + std::to_string(stage)};
      const Result wide = narrow_plan(settings, false);
      const Result narrow = narrow_plan(settings, true);
      CAPTURE(recipe.name, stage);
      REQUIRE(narrow.exit_code == 0);
      // Fully sharded weights are gathered for forward and for backward of each microbatch.
      const std::int64_t times = stage == 3 ? 2 * kMicrobatches : 1;
      const bool sends_codes = is_square || stage == 3;
      std::int64_t saved = 0;
      if (sends_codes) saved = times * gathered(kLowWeights - recipe.scale_bytes);
      saved -= 2 * (kNarrowRanks - 1) * 4 * recipe.scales;  // An all_reduce of fp32.
      CHECK(metric_of(wide, "comm.bytes_sent.by_axis.dp") -
                metric_of(narrow, "comm.bytes_sent.by_axis.dp") ==
            saved);
      CHECK(metric_of(narrow, "comm.bytes_sent.by_axis.dp") >=
            times * gathered(2 * (kAllWeights - kLowWeights)));
    }
  }
}

TEST_CASE("K6: no weight of a product stays in 16 bits") {
  for (const NarrowRecipe& recipe : kNarrowRecipes) {
    const NarrowSettings settings = {
        std::string("training.fp8_recipe=") + recipe.name,
        std::string("system.device.architecture=") + recipe.architecture,
        "parallelism.zero_stage=1"};
    const Result wide = narrow_plan(settings, false);
    const Result narrow = narrow_plan(settings, true);
    CAPTURE(recipe.name);
    CHECK(metric_of(wide, "memory.params_bytes.max") -
              metric_of(narrow, "memory.params_bytes.max") ==
          2 * kLowWeights);
    CHECK(metric_of(wide, "memory.optimizer_bytes.max") ==
          metric_of(narrow, "memory.optimizer_bytes.max"));
  }
}

TEST_CASE("K6: a fully sharded rank keeps codes of its shard, and both copies where they differ") {
  for (const NarrowRecipe& recipe : kNarrowRecipes) {
    // One unit is whole at a time: the next is gathered when the last one is away.
    const NarrowSettings settings = {
        std::string("training.fp8_recipe=") + recipe.name,
        std::string("system.device.architecture=") + recipe.architecture,
        "parallelism.zero_stage=3", "parallelism.overlap_param_gather=false"};
    const Result wide = narrow_plan(settings, false);
    const Result narrow = narrow_plan(settings, true);
    CAPTURE(recipe.name);
    REQUIRE(narrow.exit_code == 0);
    const std::int64_t copies = recipe.scales > 0 ? 1 : 2;
    const std::int64_t shard = copies * (kLowWeights + recipe.scale_bytes) / kNarrowRanks;
    const std::int64_t saved =
        metric_of(wide, "memory.params_bytes.max") - metric_of(narrow, "memory.params_bytes.max");
    const std::int64_t unit = (kLowWeights - recipe.scale_bytes) / 2;  // One layer's.
    // Square blocks: each rank has the scales of all. Others: columns are no copy of their own in
    // backward, that of the MLP's weights being the largest.
    const std::int64_t of_blocks = recipe.scales > 2 * 7 ? 4 * recipe.scales : 0;
    const std::int64_t columns = recipe.scales > 0 ? 0 : 512 * 256 + 512 * 256 / 32;
    CHECK(saved == 2 * kLowWeights / kNarrowRanks - shard + unit + columns - of_blocks);
  }
}

TEST_CASE("K6: plans with codes for weights are replayed as they run") {
  const NarrowSettings splits[] = {
      {},
      {"parallelism.tp=2", "parallelism.sequence_parallel=true"},
      {"parallelism.pp=2", "parallelism.schedule=1f1b"},
      {"model.num_experts=4", "model.num_experts_per_token=2", "parallelism.ep=2"},
      {"training.bf16_layers_at_start=1"}};
  for (const NarrowRecipe& recipe : kNarrowRecipes) {
    for (const int stage : {1, 3}) {
      for (const NarrowSettings& split : splits) {
        NarrowSettings settings = {std::string("training.fp8_recipe=") + recipe.name,
                                   std::string("system.device.architecture=") + recipe.architecture,
                                   "parallelism.zero_stage=" + std::to_string(stage)};
        settings.insert(settings.end(), split.begin(), split.end());
        if (!split.empty() && split[0].starts_with("parallelism")) {
          settings.emplace_back("parallelism.dp_shard=4");
        }
        settings.emplace_back("execution.engine=run");
        NarrowSettings replayed = settings;
        replayed.back() = "execution.engine=replay";
        CAPTURE(settings);
        CHECK(*narrow_plan(settings, true).find("trace_hash") ==
              *narrow_plan(replayed, true).find("trace_hash"));
      }
    }
  }
}

TEST_CASE("K6: parameters in 8 bits are refused where they must, with one code") {
  for (const NarrowSettings& wrong :
       {NarrowSettings{"parallelism.zero_stage=0"},
        {"parallelism.zero_stage=2", "training.fp8_recipe=mxfp8"},
        {"training.precision=nvfp4", "parallelism.zero_stage=1"},
        {"execution.tensors=real", "parallelism.zero_stage=1"},
        {"parallelism.zero_stage=3", "parallelism.offload_parameters=true"},
        {"parallelism.zero_stage=3", "training.recompute=full"},
        {"parallelism.zero_stage=3", "training.recompute=selective",
         "training.recompute_modules=mlp"},
        {"parallelism.zero_stage=3", "parallelism.reshard_after_forward=false"}}) {
    CAPTURE(wrong);
    try {
      static_cast<void>(narrow_plan(wrong, true));
      FAIL("not refused");
    } catch (const ScenarioError& error) {
      REQUIRE(error.problems().size() == 1);
      CHECK(error.problems().front().code == "E0224");
    }
  }
  // Square blocks have one copy: what forward gathered serves backward.
  CHECK(narrow_plan({"parallelism.zero_stage=3", "training.recompute=full",
                     "training.fp8_recipe=tensorwise"},
                    true)
            .exit_code == 0);
}

}  // namespace shardsim::test
