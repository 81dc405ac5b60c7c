#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Products in low precision: Megatron-LM's flags both ways, and layouts that cannot say them.
namespace shardsim::test {

namespace {

Imported import_low(const std::string& flags, const std::string& gpu = "b200") {
  const TemporaryFolder folder;
  write(folder / "run.sh",
        "pretrain_gpt.py --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 "
        "--max-position-embeddings 128 --padded-vocab-size 128 --global-batch-size 8 "
        "--micro-batch-size 1 " +
            flags);
  return import_file({"megatron", folder / "run.sh", "--gpus", "8", "--gpu", gpu});
}

Scenario in_low(const std::string& training) {
  return load_scenario_text(
      R"({"schema_version": 1, "system": {"preset": "dgx-b200", "nodes": 1},
          "model": {"family": "llama", "num_layers": 4, "hidden_size": 128,
                    "ffn_hidden_size": 256, "num_attention_heads": 4, "vocab_size": 128,
                    "seq_len": 128},
          "training": {"global_batch_size": 8, "micro_batch_size": 1, )" +
          training + "}}",
      "test.json");
}

}  // namespace

TEST_CASE("Megatron-LM's formats and recipes are read", "[exchange]") {
  struct Case {
    std::string flags;
    Precision precision;
    std::string recipe;
    std::int64_t first, last;
  };
  const Case cases[] = {
      {"--bf16", Precision::bf16, "none", 0, 0},
      {"--bf16 --fp8-format hybrid", Precision::fp8, "delayed", 0, 0},
      {"--bf16 --fp8-format e4m3 --fp8-recipe blockwise", Precision::fp8, "blockwise", 0, 0},
      {"--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --first-last-layers-bf16", Precision::fp8,
       "mxfp8", 1, 1},
      {"--bf16 --fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 "
       "--num-layers-at-start-in-bf16 2 --num-layers-at-end-in-bf16 0",
       Precision::fp8, "tensorwise", 2, 0},
      {"--bf16 --fp4-format e2m1 --fp4-recipe nvfp4", Precision::nvfp4, "nvfp4", 0, 0}};
  for (const Case& each : cases) {
    INFO(each.flags);
    const TrainingSpec& t = import_low(each.flags).scenario.training;
    CHECK(t.precision == each.precision);
    CHECK(t.fp8_recipe == each.recipe);
    CHECK(t.bf16_layers_at_start == each.first);
    CHECK(t.bf16_layers_at_end == each.last);
    CHECK(t.dtype() == DType::bf16);
  }
}

TEST_CASE("Recipes that are not known here, and other types beside, need somebody", "[exchange]") {
  const auto printed = [](const std::string& flags) { return import_low(flags).printed.err; };
  CHECK(contains(printed("--bf16 --fp8-format hybrid --fp8-recipe custom"), "no recipe here"));
  CHECK(contains(printed("--fp16 --fp8-format hybrid"), "all else is bf16 here"));
  CHECK_FALSE(contains(printed("--bf16 --fp8-format hybrid"), "all else is bf16 here"));
}

TEST_CASE("A plan in low precision is written for Megatron-LM, and read again", "[exchange]") {
  for (const char* training :
       {R"("precision": "fp8", "fp8_recipe": "delayed")", R"("precision": "fp8")",
        R"("precision": "fp8", "fp8_recipe": "blockwise", "bf16_layers_at_start": 1)",
        R"("precision": "nvfp4", "bf16_layers_at_start": 1, "bf16_layers_at_end": 2)"}) {
    INFO(training);
    const Scenario planned = in_low(training);
    const TemporaryFolder folder;
    write(folder / "run.sh", emit_megatron(planned).text + " --padded-vocab-size 128");
    const Scenario back =
        import_file({"megatron", folder / "run.sh", "--gpus", "8", "--gpu", "b200"}).scenario;
    CHECK(back.training.precision == planned.training.precision);
    CHECK(back.training.fp8_recipe == planned.training.fp8_recipe);
    CHECK(back.training.bf16_layers_at_start == planned.training.bf16_layers_at_start);
    CHECK(back.training.bf16_layers_at_end == planned.training.bf16_layers_at_end);
  }
}

TEST_CASE("The type of moments is read and written, where both have one", "[exchange]") {
  const auto of = [](const std::string& flags) {
    return import_low("--bf16 --use-distributed-optimizer " + flags);
  };
  const std::string aware = "--use-precision-aware-optimizer ";
  CHECK(of(aware).scenario.training.optimizer_state_dtype == DType::fp32);
  const Imported both = of(aware + "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
  CHECK(both.scenario.training.optimizer_state_dtype == DType::bf16);
  CHECK(
      of("--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16").scenario.training.optimizer_state_dtype ==
      DType::fp32);
  for (const char* other : {"--exp-avg-dtype bf16", "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8"}) {
    const Imported unread = of(aware + other);
    CHECK(unread.scenario.training.optimizer_state_dtype == DType::fp32);
    CHECK(contains(unread.printed.err, "moments of one type alone"));
  }
  const std::string text = emit_megatron(both.scenario).text;
  const TemporaryFolder folder;
  write(folder / "run.sh", text + " --padded-vocab-size 128");
  CHECK(import_file({"megatron", folder / "run.sh", "--gpus", "8", "--gpu", "b200"})
            .scenario.training.optimizer_state_dtype == DType::bf16);
  for (const Emission& emission : {emit_torchtitan(both.scenario), emit_deepspeed(both.scenario)}) {
    CHECK(std::ranges::any_of(emission.unsaid, [](const std::string& words) {
      return contains(words, "optimizer state in bf16");
    }));
  }
  const Scenario whole =
      in_low(R"("precision": "bf16", "optimizer": "adam", "optimizer_state_dtype": "bf16")");
  CHECK(contains(emit_megatron(whole).unsaid.front(), "--use-distributed-optimizer"));
  Scenario wide = both.scenario;
  wide.training.optimizer_state_dtype = DType::fp64;
  REQUIRE(emit_megatron(wide).unsaid.size() == 1);
  CHECK(contains(emit_megatron(wide).unsaid.front(), "optimizer state in fp64"));
}

TEST_CASE("What a framework cannot say of low precision is named", "[exchange]") {
  const Scenario fp8 = in_low(R"("precision": "fp8")");
  const auto says = [](const std::vector<std::string>& unsaid) {
    return !unsaid.empty() && contains(unsaid.front(), "products in fp8");
  };
  CHECK(says(emit_torchtitan(fp8).unsaid));
  CHECK(says(emit_deepspeed(fp8).unsaid));
  CHECK(emit_megatron(fp8).unsaid.empty());
  const Scenario kept =
      in_low(R"("precision": "fp8", "fp8_recipe": "delayed", "amax_update": "microbatch",
                "bf16_layers_at_end": 1)");
  REQUIRE(emit_megatron(kept).unsaid.size() == 1);
  CHECK(contains(emit_megatron(kept).unsaid.front(), "beside delayed scaling"));
  const Scenario by_step = in_low(R"("precision": "fp8", "fp8_recipe": "delayed")");
  REQUIRE(emit_megatron(by_step).unsaid.size() == 1);
  CHECK(contains(emit_megatron(by_step).unsaid.front(), "training.amax_update"));
}

TEST_CASE("The history of delayed scales is read and written", "[exchange]") {
  const TrainingSpec usual = import_low("--bf16 --fp8-format hybrid").scenario.training;
  CHECK(usual.amax_history_len == 1);
  CHECK(usual.amax_compute == AmaxCompute::most_recent);
  CHECK(usual.amax_update == AmaxUpdate::microbatch);
  const Scenario read = import_low(
                            "--bf16 --fp8-format hybrid --fp8-amax-history-len 1024 "
                            "--fp8-amax-compute-algo max")
                            .scenario;
  CHECK(read.training.amax_history_len == 1024);
  CHECK(read.training.amax_compute == AmaxCompute::max);
  const std::string text = emit_megatron(read).text;
  CHECK(contains(text, "--fp8-amax-history-len 1024"));
  CHECK(contains(text, "--fp8-amax-compute-algo max"));
  const TrainingSpec other =
      import_low("--bf16 --fp8-format e4m3 --fp8-recipe tensorwise").scenario.training;
  CHECK(other.amax_update == AmaxUpdate::step);
}

}  // namespace shardsim::test
