#include <catch2/catch.hpp>

#include "tests/exchange/exchange_fixture.hpp"

// Sizes of foreign files by which importers divide: zeros, negative numbers, and products that do
// not fit into 64 bits.
namespace shardsim::test {

namespace {

struct BadSize {
  const char* key;
  const char* value;
  const char* said;
};

// Imports `text` as a file of its kind; must be refused with the file's place.
void require_bad_size(const std::string& kind, const std::string& text, const std::string& said,
                      std::vector<std::string> options = {}) {
  const TemporaryFolder folder;
  write(folder / "file", text);
  options.insert(options.begin(), {"import", kind, folder / "file"});
  const Printed printed = shardsim(options);
  INFO(text << "\n" << printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, said));
  CHECK(contains(printed.err, "file:1:"));
  CHECK(contains(printed.err, "correct it in the file it was imported from"));
}

// The JSON of `rest` without its brace, with a key more.
std::string with(const std::string& rest, const BadSize& bad) {
  return rest + ", \"" + bad.key + "\": " + bad.value + "}";
}

const std::string kQwenMoe =
    R"({"model_type": "qwen2_moe", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100,
    "intermediate_size": 128, "max_position_embeddings": 32, "num_experts": 4,
    "num_experts_per_tok": 2, "shared_expert_intermediate_size": 64)";

const std::string kFlags =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --vocab-size 100 --global-batch-size 8 ";

}  // namespace

TEST_CASE("Sizes of a config.json are positive", "[exchange]") {
  const BadSize bad = GENERATE(
      BadSize{"num_attention_heads", "0", "is the number 0, not a whole number from 1 to"},
      BadSize{"num_attention_heads", "-8", "is the number -8, not"},
      BadSize{"num_attention_heads", "4, \"num_key_value_heads\": 0", "\"num_key_value_heads\" is"},
      BadSize{"num_attention_heads", "4, \"moe_intermediate_size\": 0",
              "\"moe_intermediate_size\" is the number 0"},
      BadSize{"num_attention_heads", "4, \"n_shared_experts\": -1", "not a whole number from 0"});
  const TemporaryFolder folder;
  write(folder / "file", with(kQwenMoe, bad));
  const Printed printed = shardsim({"import", "hf", folder / "file"});
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "E1353"));
  CHECK(contains(printed.err, bad.said));
  CHECK(contains(printed.err, "file:3:"));
}

TEST_CASE("Sizes of Megatron-LM's flags are positive", "[exchange]") {
  const BadSize bad = GENERATE(
      BadSize{"--tensor-model-parallel-size", "0", "tensor_model_parallel_size is 0, not a whole"},
      BadSize{"--context-parallel-size", "0", "context_parallel_size is 0, not"},
      BadSize{"--pipeline-model-parallel-size", "-2", "pipeline_model_parallel_size is -2, not"},
      BadSize{"--make-vocab-size-divisible-by", "0", "make_vocab_size_divisible_by is 0, not"},
      BadSize{"--micro-batch-size", "0", "micro_batch_size is 0, not"},
      BadSize{"--hidden-size", "0", "hidden_size is 0, not"},
      BadSize{"--num-distributed-optimizer-instances", "0", "instances is 0, not"},
      // Their product is 2 to the 64th.
      BadSize{"--tensor-model-parallel-size",
              "4294967296 --pipeline-model-parallel-size 4294967296", "is 4294967296, not"});
  require_bad_size("megatron", kFlags + bad.key + " " + bad.value, bad.said);
}

TEST_CASE("A gated MLP without a whole 64 has no default width", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "run", kFlags + "--hidden-size 16 --swiglu --num-experts 4 " +
                            "--moe-shared-expert-intermediate-size 8");
  const Printed printed = shardsim({"import", "megatron", folder / "run", "--approximate"});
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "hidden_size 16 leaves a gated MLP no whole 64s"));
}

TEST_CASE("A microbatch that a script does not say needs somebody", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "run", kFlags);
  const Imported imported = import_file({"megatron", folder / "run", "--gpus", "8"});
  CHECK(contains(imported.printed.err, "needs you  micro_batch_size"));
}

TEST_CASE("Sizes of DeepSpeed and torchtitan are positive", "[exchange]") {
  const std::vector<std::string> model = {"--model", "llama3-8b", "--gpus", "8"};
  for (const char* key : {"train_batch_size", "train_micro_batch_size_per_gpu",
                          "gradient_accumulation_steps", "sequence_parallel_size"}) {
    require_bad_size("deepspeed", std::string("{\"") + key + "\": 0}",
                     std::string("\"") + key + "\" is the number 0, not a whole number from 1",
                     model);
  }
  for (const char* key : {"local_batch_size", "global_batch_size", "seq_len"}) {
    require_bad_size("torchtitan", std::string("{\"training\": {\"") + key + "\": 0}}",
                     std::string("\"training.") + key + "\" is the number 0", model);
  }
  for (const char* key :
       {"tensor_parallel_degree", "data_parallel_shard_degree", "data_parallel_replicate_degree"}) {
    require_bad_size("torchtitan", std::string("{\"parallelism\": {\"") + key + "\": 0}}",
                     std::string("\"parallelism.") + key + "\" is the number 0", model);
  }
}

}  // namespace shardsim::test
