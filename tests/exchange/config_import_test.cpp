#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// DeepSpeed's and torchtitan's configurations.
namespace shardsim::test {

TEST_CASE("A file without its kind is told the kind, not to name a file", "[exchange]") {
  const Mistake mistakes[] = {
      {{"import", "llama3-8b.config.json"},
       "what llama3-8b.config.json is",
       "say what it is first: shardsim import hf llama3-8b.config.json"},
      {{"import", "train.log"}, "what train.log is", "shardsim import megatron train.log"},
      {{"import", "hf"}, "no file is given", "name it: shardsim import hf FILE"},
      {{"export", "plan.json"}, "what plan.json becomes", "shardsim export chakra plan.json"},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim(mistake.arguments);
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
    CHECK_FALSE(contains(printed.err, "no scenario"));
  }
}

namespace {

Printed import_config(const std::string& kind, const std::string& text,
                      std::vector<std::string> options) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  options.insert(options.begin(), {"import", kind, folder / "config.json"});
  return shardsim(options);
}

}  // namespace

TEST_CASE("A DeepSpeed configuration becomes layout, batch and loss scale", "[exchange]") {
  const Imported imported =
      import_file({"deepspeed", kData + "ds_zero_stage_3_config.json", "--model",
                   kData + "llama3-8b.config.json", "--gpus", "16", "--gpu", "h100"});
  const Scenario& s = imported.scenario;
  CHECK(num_parameters(s.model) == 8030261248);
  CHECK(s.parallelism.zero_stage == 3);
  CHECK(s.parallelism.dp_shard == 16);
  CHECK(s.training.micro_batch_size == 8);
  CHECK(s.training.global_batch_size == 128);
  CHECK(s.training.precision == Precision::fp16);  // Not the model's bfloat16.
  CHECK(s.training.loss_scale == 1024.0);
  CHECK(s.training.loss_scale_hysteresis == 2);
  CHECK(contains(imported.printed.err, "zero_optimization.stage3_max_live_parameters"));
}

TEST_CASE("Microbatch times steps times ranks is the batch", "[exchange]") {
  const std::string text = R"({"train_batch_size": 128, "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 3, "bf16": {"enabled": true}})";
  const Printed printed = import_config("deepspeed", text, {"--model", "llama3-8b", "--gpus", "8"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "4 per GPU x 3 steps x 8 data-parallel ranks are 96"));
  CHECK(contains(printed.err, "config.json:1:22"));
  const std::string two = R"({"train_batch_size": 96, "gradient_accumulation_steps": 3,
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8,
    "offload_optimizer": {"device": "cpu"}}})";
  const Printed derived = import_config("deepspeed", two, {"--model", "llama3-8b", "--gpus", "8"});
  CHECK(derived.exit_code == 0);
  CHECK(contains(derived.out, "\"micro_batch_size\": 4"));
  CHECK(contains(derived.out, "\"bucket_bytes\": 1000000000"));
  CHECK(contains(derived.out, "\"offload_optimizer\": true"));
}

TEST_CASE("What DeepSpeed leaves to others needs somebody", "[exchange]") {
  const std::string text = R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
    "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}})";
  const Printed printed = import_config("deepspeed", text, {"--model", "llama3-8b"});
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.err, "needs you  train_batch_size"));
  CHECK(contains(printed.err, "needs you  bf16.enabled, fp16.enabled"));
  CHECK(contains(printed.err, "hpZ is not modelled"));
  const Printed nothing = import_config("deepspeed", "{}", {});
  CHECK(nothing.exit_code == 2);
  CHECK(contains(nothing.err, "does not say which model"));
}

TEST_CASE("torchtitan's saved configuration becomes a scenario", "[exchange]") {
  const Imported imported = import_file(
      {"torchtitan", kData + "torchtitan-llama3-70b.json", "--gpus", "64", "--gpu", "a100"});
  const Scenario& s = imported.scenario;
  CHECK(num_parameters(s.model) == 70553706496);
  CHECK(s.parallelism.tp == 8);
  CHECK(s.parallelism.sequence_parallel);
  CHECK(s.parallelism.dp_shard == 8);
  CHECK(s.parallelism.zero_stage == 3);
  CHECK(s.training.global_batch_size == 64);
  CHECK(s.training.recompute == Recompute::full);
  CHECK(s.training.max_grad_norm == 1.0);
  CHECK(s.training.grad_reduce_dtype == DType::fp32);
}

TEST_CASE("torchtitan's pipelines cut the local batch", "[exchange]") {
  const std::string text = R"({"model": {"name": "llama3", "flavor": "8B"},
    "training": {"local_batch_size": 16, "seq_len": 2048}, "parallelism":
    {"pipeline_parallel_degree": 4, "pipeline_parallel_schedule": "ZBVZeroBubble",
     "pipeline_parallel_microbatch_size": 2, "data_parallel_shard_degree": 2}})";
  const Printed printed = import_config("torchtitan", text, {"--gpus", "8"});
  INFO(printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "\"schedule\": \"zb_v\""));
  CHECK(contains(printed.out, "\"micro_batch_size\": 2"));
  CHECK(contains(printed.out, "\"global_batch_size\": 32"));
  CHECK(contains(printed.out, "\"reshard_after_forward\": false"));
  const Printed wrong = import_config("torchtitan", text, {"--gpus", "16"});
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.err, "degrees multiply to 8, which are not 16 GPUs"));
}

TEST_CASE("A flavor that is only in torchtitan's code needs a model", "[exchange]") {
  const std::string text = R"({"model": {"name": "llama3", "flavor": "debugmodel"}})";
  const Printed printed = import_config("torchtitan", text, {});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "flavor debugmodel"));
  CHECK(contains(printed.err, "--model"));
}

}  // namespace shardsim::test
