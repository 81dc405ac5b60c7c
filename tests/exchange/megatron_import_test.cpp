#include <string>

#include <catch2/catch.hpp>

#include "scenarios/formats/emit.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

namespace shardsim::test {

namespace {

Imported import_megatron_text(const std::string& text, std::vector<std::string> options = {}) {
  const TemporaryFolder folder;
  write(folder / "run", text);
  options.insert(options.begin(), {"megatron", folder / "run"});
  return import_file(options);
}

const std::string kGptFlags =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --vocab-size 100 --global-batch-size 8 ";

}  // namespace

TEST_CASE("A run's log becomes the scenario that ran", "[exchange]") {
  const Imported imported = import_file({"megatron", kData + "megatron-28b.log"});
  const Scenario& s = imported.scenario;
  // 56 layers of 490,745,856, twice 50,688 x 6,144 and a norm: the log says 27.48 + 0.62 billion.
  CHECK(num_parameters(s.model) == 28104628224);
  CHECK(s.model.num_query_groups == 24);
  CHECK(s.system.ranks == 8);
  CHECK(s.parallelism.tp == 4);
  CHECK(s.parallelism.pp == 2);
  CHECK(s.parallelism.dp_shard == 1);
  CHECK(s.parallelism.zero_stage == 1);
  CHECK(s.parallelism.schedule == "1f1b");
  CHECK(s.parallelism.sequence_parallel);
  CHECK(s.training.num_microbatches == 512);
  CHECK(s.training.grad_reduce_dtype == DType::fp32);
  // The median of steps 2 to 8.
  CHECK(contains(imported.printed.err, "measured   elapsed time per iteration (ms)      420965.6"));
  CHECK(contains(imported.printed.err, "249.8"));
}

TEST_CASE("Lines of a log may begin with a rank and end with an origin", "[exchange]") {
  const std::string log =
      "0: ------------------------ arguments ------------------------\n"
      "0:   num_layers .................... 2\n"
      "[default0]:   hidden_size ................... 64..........................default\n"
      "0:   num_attention_heads ........... 4\n0:   seq_length .................... 32\n"
      "0:   max_position_embeddings ....... 32\n"
      "0:   world_size .................... 8\n0:   padded_vocab_size ............. 128\n"
      "0: -------------------- end of arguments ---------------------\n";
  const Imported imported = import_megatron_text(log);
  CHECK(imported.scenario.model.hidden_size == 64);
  CHECK(imported.scenario.model.vocab_size == 128);
  CHECK(imported.scenario.system.ranks == 8);
}

TEST_CASE("Layers go to host memory unless a log says that none does", "[exchange]") {
  const auto layers_of = [](const std::string& line) {
    return import_megatron_text(
               "------------------------ arguments ------------------------\n"
               "  num_layers .................... 4\n  hidden_size ................... 64\n"
               "  num_attention_heads ........... 4\n  seq_length .................... 32\n"
               "  max_position_embeddings ....... 32\n  world_size .................... 8\n"
               "  padded_vocab_size ............. 128\n  cpu_offloading_num_layers ..... 2\n" +
               line + "-------------------- end of arguments ---------------------\n")
        .scenario.parallelism.offload_layers;
  };
  CHECK(layers_of("") == 2);
  CHECK(layers_of("  cpu_offloading ................ True\n") == 2);
  CHECK(layers_of("  cpu_offloading ................ False\n") == 0);
  CHECK(layers_of("  cpu_offloading_activations .... False\n") == 0);
}

TEST_CASE("A launch script is read with its variables, quotes and arrays", "[exchange]") {
  const Imported imported =
      import_file({"megatron", kData + "gpt3-175b.sh", "--gpus", "1024", "--gpu", "h100"});
  const Scenario& s = imported.scenario;
  CHECK(num_parameters(s.model) == 174615846912);
  CHECK(s.parallelism.tp == 8);
  CHECK(s.parallelism.pp == 16);
  CHECK(s.parallelism.dp_shard == 8);
  CHECK(s.training.precision == Precision::fp16);
  CHECK(s.training.global_batch_size == 1536);
  CHECK(contains(imported.printed.err, "--gpus 1024 is given"));
  CHECK(contains(imported.printed.err, "taken      micro_batch_size                     1 "));
}

TEST_CASE("Degrees that the GPUs do not allow are refused where they stand", "[exchange]") {
  const Printed printed = shardsim({"import", "megatron", kData + "gpt3-175b.sh"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "is 128, which does not divide 8 GPUs"));
  CHECK(contains(printed.err, "gpt3-175b.sh:17"));
  CHECK(contains(printed.err, "such as 128"));
}

TEST_CASE("Flags mean what Megatron-LM means", "[exchange]") {
  const Imported imported = import_megatron_text(
      kGptFlags +
          "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --bf16 "
          "--use-distributed-optimizer --overlap-grad-reduce --recompute-granularity full "
          "--num-distributed-optimizer-instances 2 --hidden-dropout 0",
      {"--gpus", "8"});
  const Scenario& s = imported.scenario;
  CHECK(s.model.family == ModelFamily::gpt2);
  CHECK(s.model.vocab_size == 128);  // Filled up.
  CHECK(s.model.tied_embeddings);
  CHECK(s.parallelism.vpp == 2);
  CHECK(s.parallelism.schedule == "interleaved_1f1b");
  CHECK(s.parallelism.dp_replicate == 2);
  CHECK(s.parallelism.dp_shard == 2);
  CHECK(s.parallelism.bucket_bytes == 160000000);  // 40 million of four bytes.
  CHECK(s.training.recompute == Recompute::full);
  CHECK(s.training.hidden_dropout == 0.0);
}

TEST_CASE("Recomputed modules are Megatron-LM's, there and back", "[exchange]") {
  const auto imported = [](const std::string& flags) {
    return import_megatron_text(kGptFlags + "--micro-batch-size 1 --bf16 " + flags, {"--gpus", "2"})
        .scenario;
  };
  const std::string selective = "--recompute-granularity selective ";
  struct Case {
    std::string flags;
    std::string modules;
  };
  const Case cases[] = {
      {selective, "core_attn"},
      {"--recompute-activations", "core_attn"},
      {selective + "--recompute-modules moe layernorm mlp", "layernorm,mlp,moe"},
      {selective + "--recompute-modules mla_up_proj", "mla_up_proj"},
      {selective + "--recompute-modules core_attn mhc", "core_attn"},
      {selective + "--moe-layer-recompute", "core_attn,moe"},
      {"--moe-layer-recompute", "core_attn,moe"},
      {"--moe-layer-recompute --recompute-modules mlp", "mlp,moe"},
  };
  for (const Case& each : cases) {
    INFO(each.flags);
    const Scenario scenario = imported(each.flags);
    CHECK(scenario.training.recompute == Recompute::selective);
    CHECK(scenario.training.recompute_modules == each.modules);
  }
  CHECK(imported(selective + "--recompute-modules mhc").training.recompute == Recompute::none);
  const std::string emitted = emit_megatron(imported(cases[2].flags)).text;
  INFO(emitted);
  CHECK(contains(emitted, "--recompute-modules layernorm mlp"));  // There are no experts.
  CHECK(imported(selective + "--recompute-modules layernorm mlp").training.recompute_modules ==
        "layernorm,mlp");
  Scenario all = imported(selective);
  all.training.recompute_modules = "layernorm,activation,moe_act,core_attn,mla_up_proj,mlp";
  const std::string some = emit_megatron(all).text;
  CHECK(contains(some, "--recompute-modules layernorm core_attn mlp \\"));
  CHECK(contains(some, "no module for those of dense MLPs alone"));
  all.model.num_experts = 4;
  all.model.moe_shared_ffn_hidden_size = 16;
  all.training.recompute_modules = "shared_experts";
  CHECK(contains(emit_megatron(all).text, "--recompute-modules shared_experts"));
  all.training.recompute_modules = "activation";
  CHECK_FALSE(contains(emit_megatron(all).text, "--recompute"));
}

TEST_CASE("Muon and Lion are Megatron-LM's, with its defaults", "[exchange]") {
  const std::string flags = kGptFlags + "--micro-batch-size 1 --bf16 --optimizer ";
  const std::vector<std::string> on = {"--gpus", "2"};
  const Scenario plain = import_megatron_text(flags + "muon", on).scenario;
  CHECK(plain.training.uses_muon());
  CHECK(plain.training.elementwise_optimizer() == "adamw");
  CHECK(plain.training.muon.momentum == 0.9);
  CHECK_FALSE(plain.training.muon.nesterov);
  CHECK(plain.parallelism.zero_stage == 0);
  const Scenario told =
      import_megatron_text(
          flags +
              "muon --muon-momentum 0.8 --muon-nesterov --muon-num-ns-steps 7 --muon-scale-mode "
              "shape_scaling --muon-tp-mode blockwise --muon-extra-scale-factor 0.2 "
              "--muon-coefficient-type simple --muon-scalar-optimizer lion --lion-beta1 0.9 "
              "--use-distributed-optimizer",
          on)
          .scenario;
  CHECK(told.parallelism.zero_stage == 1);
  CHECK(told.training.muon.data_parallel == MuonDataParallel::layer_wise);
  CHECK(told.training.muon.momentum == 0.8);
  CHECK(told.training.muon.nesterov);
  CHECK(told.training.muon.num_steps == 7);
  CHECK(told.training.muon.scale == MuonScale::shape_scaling);
  CHECK(told.training.muon.tensor_parallel == MuonTensorParallel::blockwise);
  CHECK(told.training.muon.extra_scale_factor == 0.2);
  CHECK(told.training.muon.coefficients == MuonCoefficients::simple);
  CHECK(told.training.elementwise_optimizer() == "lion");
  CHECK(told.training.beta1 == 0.9);
  CHECK(told.training.beta2 == 0.98);
  // The deprecated name is layer-wise.
  const Scenario old = import_megatron_text(flags + "dist_muon", on).scenario;
  CHECK(old.training.uses_muon());
  CHECK(old.parallelism.zero_stage == 1);
  const Scenario lion = import_megatron_text(flags + "lion", on).scenario;
  CHECK(lion.training.optimizer == "lion");
  CHECK(lion.training.beta1 == 0.95);
  const Imported unsplit = import_megatron_text(flags + "muon --muon-no-split-qkv", on);
  CHECK(contains(unsplit.printed.err, "q, k and v are orthogonalized apart here"));
}

TEST_CASE("Coefficients of Muon that are not here are refused or approximated", "[exchange]") {
  const std::string flags = kGptFlags +
                            "--micro-batch-size 1 --bf16 --optimizer muon "
                            "--muon-coefficient-type polar_express";
  const TemporaryFolder folder;
  write(folder / "run", flags);
  const Printed printed = shardsim({"import", "megatron", folder / "run", "--gpus", "2"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "muon_coefficient_type polar_express: here are quintic and simple"));
  const Imported imported = import_megatron_text(flags, {"--gpus", "2", "--approximate"});
  CHECK(imported.scenario.training.muon.coefficients == MuonCoefficients::quintic);
}

TEST_CASE("Blocks of no family are refused or approximated", "[exchange]") {
  const std::string flags = kGptFlags + "--swiglu --ffn-hidden-size 128 --micro-batch-size 1";
  const TemporaryFolder folder;
  write(folder / "run", flags);
  const Printed printed = shardsim({"import", "megatron", folder / "run", "--gpus", "8"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "learned positions beside a gated MLP"));
  const Imported imported = import_megatron_text(flags, {"--gpus", "8", "--approximate"});
  CHECK(imported.scenario.model.family == ModelFamily::llama);
}

TEST_CASE("A flag ends where the shell ends it", "[exchange]") {
  const char* const scripts[] = {
      "ARGS=(\n  --use-distributed-optimizer\n  --bf16 )\npython pretrain.py ${ARGS[@]}\n",
      "python pretrain.py --use-distributed-optimizer --bf16 $EXTRA_ARGS\n",
      "python pretrain.py --use-distributed-optimizer --bf16 2>&1 | tee log\n",
      "python pretrain.py --use-distributed-optimizer --bf16 > log 2> errors; echo done\n",
      "python pretrain.py --use-distributed-optimizer --bf16\nwait\n",
      "python pretrain.py --use-distributed-optimizer --bf16 &\n",
      "ARGS=\" \\\n --use-distributed-optimizer \\\n --bf16 \\\n\"\n",
  };
  for (const char* script : scripts) {
    INFO(script);
    const Imported imported = import_megatron_text(kGptFlags + "\n" + script, {"--gpus", "8"});
    CHECK(imported.scenario.training.precision == Precision::bf16);
    CHECK(imported.scenario.parallelism.zero_stage == 1);
  }
  const Imported last = import_megatron_text(kGptFlags +
                                                 "--micro-batch-size 1 --lr-decay-style)\n"
                                                 "--clip-grad \\\n 0.5 2>&1\n",
                                             {"--gpus", "8"});
  CHECK(last.scenario.training.max_grad_norm == 0.5);
}

TEST_CASE("Values that a script does not set are refused with their line", "[exchange]") {
  const TemporaryFolder folder;
  write(folder / "run.sh", kGptFlags + "\\\n  --tensor-model-parallel-size $TP\n");
  const Printed printed = shardsim({"import", "megatron", folder / "run.sh"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "tensor_model_parallel_size is $TP, not a whole number"));
  CHECK(contains(printed.err, "run.sh:2:32"));
  write(folder / "run.sh", "no flags at all");
  CHECK(contains(shardsim({"import", "megatron", folder / "run.sh"}).err, "E1360"));
}

}  // namespace shardsim::test
