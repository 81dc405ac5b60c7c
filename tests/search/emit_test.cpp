#include "scenarios/formats/emit.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/field_table.hpp"
#include "scenarios/load.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/approved_file.hpp"

namespace shardsim::test {

namespace {

Scenario interleaved() {
  return load_scenario_text(
      R"({"schema_version": 1, "model": "llama3-70b",
          "system": {"preset": "dgx-h100", "nodes": 16},
          "parallelism": {"tp": 8, "pp": 4, "vpp": 5, "sequence_parallel": true, "zero_stage": 1},
          "training": {"global_batch_size": 128, "recompute": "selective"}})",
      "test.json");
}

Scenario experts() {
  return load_scenario_text(
      R"({"schema_version": 1, "model": "mixtral-8x7b",
          "system": {"preset": "dgx-h100", "nodes": 4},
          "parallelism": {"tp": 2, "pp": 2, "ep": 4, "cp": 2, "dp_replicate": 2, "zero_stage": 3,
                          "sequence_parallel": true, "schedule": "zb_h1"},
          "training": {"global_batch_size": 64, "recompute": "full", "grad_reduce_dtype": "fp32"}})",
      "test.json");
}

}  // namespace

TEST_CASE("layouts in the words of frameworks") {
  for (const std::string& framework : emitted_frameworks()) {
    require_approved_file("tests/search/golden/interleaved." + framework,
                          emit_for(framework, interleaved()).text);
    require_approved_file("tests/search/golden/experts." + framework,
                          emit_for(framework, experts()).text);
  }
}

TEST_CASE("what is emitted for DeepSpeed is JSON, and its batch adds up") {
  for (const Scenario& scenario : {interleaved(), experts()}) {
    const auto json = nlohmann::json::parse(emit_deepspeed(scenario).text);
    const auto ranks = scenario.parallelism.data_parallel_size();
    CHECK(json["train_batch_size"].get<std::int64_t>() ==
          json["train_micro_batch_size_per_gpu"].get<std::int64_t>() *
              json["gradient_accumulation_steps"].get<std::int64_t>() * ranks);
  }
}

TEST_CASE("stages of several sizes are a layout of letters for Megatron-LM, and come back") {
  const Scenario planned = load_scenario_text(
      R"({"schema_version": 1, "model": "qwen3-235b-a22b",
          "system": {"preset": "dgx-h100", "nodes": 32},
          "parallelism": {"tp": 2, "pp": 8, "vpp": 4, "ep": 32, "sequence_parallel": true},
          "training": {"global_batch_size": 128}})",
      "test.json");
  const std::string flags = emit_megatron(planned).text;
  CHECK(flags.find("--pipeline-model-parallel-layout 'Et*3|t*3|") != std::string::npos);
  CHECK(flags.find("--num-virtual-stages-per-pipeline-rank") == std::string::npos);
  const TemporaryFolder folder;
  write(folder / "run.sh", flags);
  const auto read = [&folder](const std::string& words) {
    write(folder / "run.sh", words);
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh", "--gpus", "256"});
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    return load_scenario_text(printed.out, "imported.json").parallelism;
  };
  const ParallelismSpec back = read(flags);
  CHECK(back.vpp == 4);
  CHECK(back.schedule == "interleaved_1f1b");
  CHECK(back.stage_layers == planned.parallelism.stage_layers);
  // Megatron-Core's own way to write such a list: groups, letters and commas.
  const std::size_t begin = flags.find("'Et*3");
  const std::size_t end = flags.find('\'', begin + 1) + 1;
  const auto with_layout = [&](const std::string& layout) {
    return flags.substr(0, begin) + "'" + layout + "'" + flags.substr(end);
  };
  const ParallelismSpec grouped = read(with_layout("E,tt|(ttt|)*30,tt,L"));
  REQUIRE(grouped.stage_layers.size() == 32);
  CHECK(grouped.stage_layers.front() == 2);
  CHECK(grouped.stage_layers[1] == 3);
  CHECK(grouped.stage_layers.back() == 2);
  for (const char* unread : {"Ett|(ttt|*30,ttL", "Ett|(ttt|)*29,ttL", "Ett|x*94|L", "ttE|t*92L",
                             "Et*99999999999|L", "Ettt|(ttt|)*30,t|mL|", "Et*47|m|t*47|L"}) {
    INFO(unread);
    write(folder / "run.sh", with_layout(unread));
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh", "--gpus", "256"});
    CHECK(printed.err.find("pipeline_model_parallel_layout") != std::string::npos);
    CHECK(printed.err.find("not read: set parallelism.stage_layers") != std::string::npos);
  }
}

// A plan that is launched and imported again is the same plan.
TEST_CASE("flags for Megatron-LM are read back as the layout that they were made of") {
  const std::pair<const char*, const char*> layouts[] = {
      {R"("tp": 4, "pp": 2, "sequence_parallel": true, "bucket_bytes": 40000000,
          "first_bucket_bytes": 40000000)",
       R"("grad_reduce_dtype": "fp32")"},
      {R"("tp": 8, "pp": 4, "vpp": 5, "sequence_parallel": true, "zero_stage": 1,
          "dp_replicate": 2, "bucket_bytes": 40000000, "first_bucket_bytes": 40000000)",
       R"("grad_reduce_dtype": "bf16")"},
      {R"("zero_stage": 1, "overlap_grad_reduce": false, "overlap_param_gather": false,
          "bucket_bytes": 1099511627776, "first_bucket_bytes": 1099511627776)",
       R"("grad_reduce_dtype": "fp32")"},
      {R"("zero_stage": 3, "cp": 2, "cp_attention": "all_gather")",
       R"("grad_reduce_dtype": "fp32")"}};
  for (const auto& [parallelism, training] : layouts) {
    const Scenario planned = load_scenario_text(
        std::string(R"({"schema_version": 1, "model": "llama3-70b",
                        "system": {"preset": "dgx-h100", "nodes": 16}, "parallelism": {)") +
            parallelism + R"(}, "training": {"global_batch_size": 128, )" + training + "}}",
        "test.json");
    const TemporaryFolder folder;
    write(folder / "run.sh", emit_megatron(planned).text);
    const Printed printed =
        shardsim({"import", "megatron", folder / "run.sh", "--model", "llama3-70b"});
    INFO(parallelism << printed.err);
    REQUIRE(printed.exit_code == 0);
    const Scenario imported = load_scenario_text(printed.out, "imported.json");
    CHECK(imported.training.grad_reduce_dtype == planned.training.grad_reduce_dtype);
    int compared = 0;
    for (const Field& field : parallelism_fields()) {
      if (!field.get || (field.acts && !field.acts(planned))) continue;
      INFO(field.path);
      CHECK(field.get(imported) == field.get(planned));
      ++compared;
    }
    CHECK(compared > 10);
  }
}

TEST_CASE("more tensor-parallel ranks than key and value heads are read back, with a warning") {
  const Scenario planned = load_scenario_text(
      R"({"schema_version": 1, "model": "qwen3-30b-a3b",
          "system": {"preset": "dgx-h100", "nodes": 1},
          "parallelism": {"tp": 8, "sequence_parallel": true, "zero_stage": 1},
          "training": {"global_batch_size": 8}})",
      "test.json");
  REQUIRE(planned.model.num_query_groups == 4);
  const std::string flags = emit_megatron(planned).text;
  CHECK(flags.find("Megatron-LM gathers queries, keys and values") != std::string::npos);
  CHECK(
      emit_for("torchtitan", planned).text.find("tp to divide key and value heads, which are 4") !=
      std::string::npos);
  const TemporaryFolder folder;
  write(folder / "run.sh", flags);
  const Printed printed = shardsim({"import", "megatron", folder / "run.sh"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  CHECK(printed.err.find("here ranks have copies of heads") != std::string::npos);
  const Scenario imported = load_scenario_text(printed.out, "imported.json");
  CHECK(imported.model.num_query_groups == 4);
  CHECK(imported.parallelism.tp == 8);
}

TEST_CASE("a dispatch by node is Megatron-LM's flexible dispatcher, and is read back") {
  for (const char* dispatch :
       {"per_node", "per_expert", R"(per_node", "expert_payload": "mxfp8)"}) {
    const Scenario scenario = load_scenario_text(
        R"({"schema_version": 1, "model": "mixtral-8x7b",
                 "system": {"preset": "dgx-h100", "nodes": 2},
                 "parallelism": {"ep": 8, "expert_dispatch": ")" +
            std::string(dispatch) + R"("}, "training": {"global_batch_size": 16}})",
        "test.json");
    const TemporaryFolder folder;
    write(folder / "run.sh", emit_megatron(scenario).text);
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh"});
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    CHECK(load_scenario_text(printed.out, "imported.json").parallelism.expert_dispatch ==
          scenario.parallelism.expert_dispatch);
    CHECK(load_scenario_text(printed.out, "imported.json").parallelism.expert_payload ==
          scenario.parallelism.expert_payload);
  }
}

TEST_CASE("inputs of activations in 8 bits have no flag of Megatron-LM, and its logs are read") {
  const auto planned = [](const std::string& store) {
    return load_scenario_text(R"({"schema_version": 1, "model": "mixtral-8x7b",
                 "system": {"preset": "dgx-h100", "nodes": 2},
                 "training": {"global_batch_size": 16, "activation_store": ")" +
                                  store + R"("}})",
                              "test.json");
  };
  const Emission plain = emit_megatron(planned("e4m3"));
  CHECK(plain.text.find("--activation-func") == std::string::npos);
  CHECK(plain.text.find("activation_func_fp8_input_store") != std::string::npos);
  CHECK(plain.unsaid.size() == 1);
  CHECK(emit_megatron(planned("blockwise")).unsaid.size() == 1);
  CHECK(emit_megatron(planned("same")).unsaid.empty());
  for (const char* framework : {"torchtitan", "deepspeed"}) {
    const std::string text = emit_for(framework, planned("e4m3")).text;
    CHECK(text.find("training.activation_store") != std::string::npos);
  }
}

TEST_CASE("weights in 8 bits and overlapped products are flags of Megatron-LM, and are read back") {
  const Scenario planned = load_scenario_text(
      R"({"schema_version": 1, "model": "llama3-8b", "system": {"preset": "dgx-b200", "nodes": 1},
          "parallelism": {"tp": 2, "sequence_parallel": true, "overlap_tensor_parallel": true,
                          "zero_stage": 1},
          "training": {"global_batch_size": 16, "precision": "fp8", "quantized_parameters": true}})",
      "test.json");
  const TemporaryFolder folder;
  const std::string flags = emit_megatron(planned).text;
  write(folder / "run.sh", flags);
  const Printed printed = shardsim({"import", "megatron", folder / "run.sh", "--gpu", "b200"});
  INFO(flags);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const Scenario imported = load_scenario_text(printed.out, "imported.json");
  CHECK(imported.training.quantized_parameters);
  CHECK(imported.parallelism.overlap_tensor_parallel);
}

TEST_CASE("activations in host memory are flags of Megatron-LM, and are read back") {
  const std::pair<const char*, std::int64_t> cases[] = {
      {R"("offload_layers": 12)", 12},
      {R"("offload_layers": 12, "offload_modules": "attn_norm,core_attn")", 31}};
  for (const auto& [fields, layers] : cases) {
    const Scenario planned = load_scenario_text(
        R"({"schema_version": 1, "model": "llama3-8b", "system": {"preset": "dgx-h100", "nodes": 1},
            "parallelism": {)" +
            std::string(fields) + R"(}, "training": {"global_batch_size": 16}})",
        "test.json");
    const TemporaryFolder folder;
    const std::string flags = emit_megatron(planned).text;
    write(folder / "run.sh", flags);
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh"});
    INFO(flags);
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    const Scenario imported = load_scenario_text(printed.out, "imported.json");
    CHECK(imported.parallelism.offload_layers == layers);  // By modules: all but the last.
    CHECK(imported.parallelism.offload_modules == planned.parallelism.offload_modules);
    CHECK(imported.parallelism.offload_min_elements == planned.parallelism.offload_min_elements);
    CHECK(flags.find("--cpu-offloading ") == std::string::npos);  // There is no such flag.
    CHECK(emit_for("torchtitan", planned).text.find("parallelism.offload_layers") !=
          std::string::npos);
    CHECK(emit_for("deepspeed", planned).text.find("parallelism.offload_layers") !=
          std::string::npos);
  }
}

TEST_CASE("traffic of experts under computation is a flag of Megatron-LM, and is read back") {
  const Scenario scenario = load_scenario_text(R"({"schema_version": 1, "model": "mixtral-8x7b",
                 "system": {"preset": "dgx-h100", "nodes": 2},
                 "parallelism": {"pp": 2, "vpp": 2, "ep": 8, "schedule": "combined_1f1b",
                                 "delay_weight_gradients": true},
                 "training": {"global_batch_size": 32}})",
                                               "test.json");
  const TemporaryFolder folder;
  const std::string flags = emit_megatron(scenario).text;
  CHECK(flags.find("--overlap-moe-expert-parallel-comm") != std::string::npos);
  CHECK(flags.find("--delay-wgrad-compute") != std::string::npos);
  CHECK(flags.find("has no schedule") == std::string::npos);
  write(folder / "run.sh", flags);
  const Printed printed = shardsim({"import", "megatron", folder / "run.sh"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const ParallelismSpec imported = load_scenario_text(printed.out, "imported.json").parallelism;
  CHECK(imported.schedule == "combined_1f1b");
  CHECK(imported.delay_weight_gradients);
}

TEST_CASE("slices of experts are read back, and Megatron-LM's default of them is its tp") {
  const auto flags_with = [](const char* etp) {
    return emit_megatron(load_scenario_text(R"({"schema_version": 1, "model": "mixtral-8x7b",
                 "system": {"preset": "dgx-h100", "nodes": 1},
                 "parallelism": {"tp": 2, "ep": 2, "sequence_parallel": true, "etp": )" +
                                                std::string(etp) +
                                                R"(}, "training": {"global_batch_size": 8}})",
                                            "test.json"))
        .text;
  };
  const TemporaryFolder folder;
  const auto imported_etp = [&](const std::string& flags) {
    write(folder / "run.sh", flags);
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh"});
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    return load_scenario_text(printed.out, "imported.json").parallelism.etp;
  };
  CHECK(imported_etp(flags_with("1")) == 1);
  CHECK(imported_etp(flags_with("4")) == 4);
  std::string unsaid = flags_with("4");
  const std::string flag = "--expert-tensor-parallel-size 4 ";
  REQUIRE(unsaid.find(flag) != std::string::npos);
  unsaid.erase(unsaid.find(flag), flag.size());
  CHECK(imported_etp(unsaid) == 2);
}

TEST_CASE("copied heads are counted where they are: in layers with heads of their own") {
  const Scenario planned = load_scenario_text(
      R"({"schema_version": 1, "model": "gemma-4-31b",
          "system": {"preset": "dgx-h100", "nodes": 1},
          "parallelism": {"tp": 8, "sequence_parallel": true, "zero_stage": 1},
          "training": {"global_batch_size": 8}})",
      "test.json");
  REQUIRE(planned.model.num_query_groups == 16);
  CHECK(contains(emit_torchtitan(planned).text, "key and value heads, which are 4 in some layers"));
  CHECK(contains(emit_deepspeed(planned).text,
                 "copies key and value heads, which are 4 in some layers; AutoTP"));
  CHECK_FALSE(contains(emit_deepspeed(interleaved()).text, "copies key and value heads"));
}

TEST_CASE("flags of muon for Megatron-LM are read back as they were planned") {
  const std::string settings[] = {
      R"("muon_nesterov": false)",
      R"("muon_momentum": 0.8, "muon_num_ns_steps": 7, "muon_scale_mode": "shape_scaling",
         "muon_extra_scale_factor": 0.2, "muon_tp_mode": "distributed",
         "muon_coefficient_type": "simple", "muon_scalar_optimizer": "lion")"};
  for (const std::string& of_muon : settings) {
    const Scenario planned = load_scenario_text(
        R"({"schema_version": 1, "model": "llama3-70b",
            "system": {"preset": "dgx-h100", "nodes": 16},
            "parallelism": {"tp": 8, "zero_stage": 1},
            "training": {"global_batch_size": 128, "optimizer": "muon", )" +
            of_muon + "}}",
        "test.json");
    const TemporaryFolder folder;
    write(folder / "run.sh", emit_megatron(planned).text);
    const Printed printed =
        shardsim({"import", "megatron", folder / "run.sh", "--model", "llama3-70b"});
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    const Scenario imported = load_scenario_text(printed.out, "imported.json");
    int compared = 0;
    for (const Field& field : training_fields()) {
      if (field.path != "training.optimizer" && field.path.find(".muon_") == std::string::npos) {
        continue;
      }
      INFO(field.path);
      CHECK(field.get(imported) == field.get(planned));
      ++compared;
    }
    CHECK(compared == 10);
  }
  const Scenario slices = load_scenario_text(
      R"({"schema_version": 1, "model": "llama3-70b",
          "system": {"preset": "dgx-h100", "nodes": 16}, "parallelism": {"zero_stage": 1},
          "training": {"global_batch_size": 128, "optimizer": "muon", "muon_dp_mode": "slices"}})",
      "test.json");
  CHECK(emit_megatron(slices).text.find("Megatron-LM's muon has no slices") != std::string::npos);
}

TEST_CASE("an unknown framework is explained") {
  try {
    require_framework("megatrno");
    FAIL("it must be refused");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E1327");
    CHECK(error.fix().find("did you mean \"megatron\"?") != std::string::npos);
  }
}

}  // namespace shardsim::test
