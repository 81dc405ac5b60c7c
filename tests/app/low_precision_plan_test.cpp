#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

// Plans in low precision, over the axes of parallelism: K4.
namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

constexpr const char* kDense = R"({
  "schema_version": 1, "name": "low",
  "model": {"family": "llama", "num_layers": 4, "hidden_size": 512, "ffn_hidden_size": 1024,
            "num_attention_heads": 8, "vocab_size": 1024, "seq_len": 512},
  "system": {"preset": "dgx-b200", "nodes": 1},
  "parallelism": {"overlap_grad_reduce": false},
  "training": {"global_batch_size": 32, "micro_batch_size": 1}})";

Result planned(const Overrides& overrides) {
  return run_scenario(load_scenario_text(kDense, "low.json", overrides), {}).result;
}

Overrides joined(Overrides one, const Overrides& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

// Each axis, and each way to keep less.
const std::vector<Overrides> kLayouts = {
    {},
    {"parallelism.tp=2"},
    {"parallelism.tp=2", "parallelism.sequence_parallel=true"},
    {"parallelism.cp=2"},
    {"parallelism.pp=2"},
    {"parallelism.pp=2", "parallelism.schedule=zb_h1"},
    {"parallelism.pp=2", "parallelism.tp=2", "parallelism.sequence_parallel=true",
     "parallelism.schedule=zb_h1"},
    {"parallelism.zero_stage=1"},
    {"parallelism.zero_stage=2"},
    {"parallelism.zero_stage=3"},
    {"model.num_experts=4", "parallelism.ep=2"},
    {"model.num_experts=4", "model.moe_expert_bias=true", "parallelism.ep=2"},
    {"model.num_experts=4", "model.moe_shared_ffn_hidden_size=512", "parallelism.tp=2",
     "parallelism.sequence_parallel=true"},
    {"model.kv_lora_rank=128", "model.qk_nope_head_dim=64", "model.qk_rope_head_dim=64",
     "model.value_head_dim=64"},
    {"model.kv_lora_rank=128", "model.q_lora_rank=128", "model.qk_nope_head_dim=64",
     "model.qk_rope_head_dim=64", "model.value_head_dim=64", "parallelism.tp=2"},
    {"model.parallel_block=true", "parallelism.tp=2", "parallelism.sequence_parallel=true"},
    {"model.mtp_num_layers=1"},
    {"training.recompute=full"},
    {"training.bf16_layers_at_start=1", "training.bf16_layers_at_end=1"}};

const std::vector<Overrides> kPrecisions = {
    {"training.precision=fp8", "training.fp8_recipe=delayed"},
    {"training.precision=fp8", "training.fp8_recipe=tensorwise",
     "system.device.architecture=hopper"},
    {"training.precision=fp8", "training.fp8_recipe=blockwise"},
    {"training.precision=fp8", "training.fp8_recipe=mxfp8"},
    {"training.precision=nvfp4"}};

}  // namespace

TEST_CASE("K4: plans in low precision run over every axis, and are replayed as they run") {
  for (const Overrides& layout : kLayouts) {
    for (const Overrides& precision : kPrecisions) {
      const Overrides all = joined(layout, precision);
      std::string words;
      for (const std::string& each : all) words += each + " ";
      CAPTURE(words);
      const Result run = planned(joined(all, {"execution.engine=run"}));
      const Result replayed = planned(joined(all, {"execution.engine=replay"}));
      CHECK(run.exit_code == 0);
      REQUIRE(run.metrics.size() == replayed.metrics.size());
      for (std::size_t i = 0; i < run.metrics.size(); ++i) {
        if (run.metrics[i].name.rfind("engine", 0) == 0) continue;
        CAPTURE(run.metrics[i].name);
        CHECK(run.metrics[i].value == replayed.metrics[i].value);
      }
    }
  }
}

TEST_CASE("every way to recompute runs in low precision, and keeps no more than without") {
  const auto kept = [](const Overrides& more) {
    return *planned(more).number("memory.activations_bytes.max");
  };
  const Overrides shape = {"model.num_experts=4",        "model.moe_shared_ffn_hidden_size=512",
                           "model.first_dense_layers=2", "model.kv_lora_rank=128",
                           "model.qk_nope_head_dim=64",  "model.qk_rope_head_dim=64",
                           "model.value_head_dim=64"};
  for (const Overrides& precision : kPrecisions) {
    CAPTURE(precision.back());
    const Overrides all = joined(shape, precision);
    const double plain = kept(all);
    for (const char* module : {"layernorm", "activation", "moe_act", "core_attn", "mla_up_proj",
                               "mlp", "moe", "shared_experts"}) {
      CAPTURE(module);
      const std::string modules = std::string("training.recompute_modules=") + module;
      const double less = kept(joined(all, {"training.recompute=selective", modules}));
      CHECK(less <= plain);
    }
  }
}

TEST_CASE("quantized weights stay where weights do, and one copy or two") {
  const auto more = [](const std::string& stage, const Overrides& precision) {
    const Overrides layout = {"parallelism.zero_stage=" + stage};
    const char* const name = "memory.params_bytes.max";
    return *planned(joined(layout, precision)).number(name) - *planned(layout).number(name);
  };
  // Four layers of attention's four matrices and of the MLP's three.
  const double elements = 4.0 * (4.0 * 512.0 * 512.0 + 3.0 * 512.0 * 1024.0);
  // Scales from the past: of three operands of each of these matrices, what a step saw, its history
  // and the multiplier, in fp32.
  CHECK(more("1", kPrecisions[0]) == elements + 3.0 * 28.0 * 3.0 * 4.0);
  CHECK(more("1", kPrecisions[1]) == 2.0 * elements);
  CHECK(more("1", kPrecisions[3]) == 2.0 * elements * (1.0 + 1.0 / 32.0));
  // Sharded ranks have no more than the copies of a weight at a time.
  CHECK(more("3", kPrecisions[1]) <= 2.0 * 512.0 * 1024.0);
}

TEST_CASE("with sequence parallelism quantized rows travel, and sums do in 16 bits") {
  const Overrides layout = {"parallelism.tp=2", "parallelism.sequence_parallel=true",
                            "execution.steps=1"};
  const auto sent = [&](const Overrides& precision) {
    return *planned(joined(layout, precision)).number("comm.bytes_sent.by_axis.tp");
  };
  const double wide = sent({});
  // Elements that all_gathers of a size send between two ranks: 4 layers, 32 microbatches.
  const double elements = 4.0 * 32.0 * 512.0 * 512.0;
  // Largest elements of 4 layers: 11 for each of 8 microbatches, and 7 weights'. Two ranks send a
  // number of 4 bytes each, in 4 groups.
  const auto largest = [](double of_a_tensor) {
    return 4.0 * (8.0 * 11.0 * of_a_tensor + 7.0) * 2.0 * 4.0 * 4.0;
  };
  // Two regions gather their input, and in backward that and the output's gradient.
  CHECK(wide - sent(kPrecisions[0]) == elements * 6.0 * (2.0 - 1.0));
  CHECK(wide - sent(kPrecisions[1]) == elements * 6.0 * (2.0 - 1.0) - largest(1.0));
  // With blocks, rows and columns of the output's gradient are messages of their own.
  CHECK(wide - sent(kPrecisions[3]) == elements * (6.0 * 2.0 - 8.0 * (1.0 + 1.0 / 32.0)));
  // In 4 bits transformed columns have another largest element than rows.
  CHECK(wide - sent(kPrecisions[4]) ==
        elements * (6.0 * 2.0 - 8.0 * (0.5 + 1.0 / 16.0)) - largest(2.0));
}

}  // namespace shardsim::test
