#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "sim/kernel/version.hpp"

#include "strategies/model/make_model.hpp"

#include "scenarios/field.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/scenario.hpp"

#include "tests/scenarios/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

Scenario with_presets(const std::string& model, const std::string& system) {
  return loaded("{\"schema_version\": 1, \"model\": \"" + model +
                "\", \"system\": {\"preset\": \"" + system +
                "\", \"nodes\": 1}, \"training\": {\"global_batch_size\": 8}}");
}

// Fields that the kind of device or model does not have, and fields that only NCCL's model reads.
// The latter describe the fabric around a machine, a network card per GPU, and Intel's processors.
const std::set<std::string> kMayDefault = {"system.device.peak_tflops.fp8", "model.rope_theta",
                                           "system.nics_per_node",          "system.nodes_per_pod",
                                           "system.oversubscription",       "system.cpu_vendor"};

}  // namespace

TEST_CASE("every built-in preset loads, and each of its numbers has a source") {
  std::set<std::string> names;
  for (const PresetInfo& preset : list_builtin_presets()) {
    INFO(preset.name);
    names.insert(preset.name);
    const bool is_model = preset.folder == "models";
    const Scenario s =
        with_presets(is_model ? preset.name : "gpt2", is_model ? "dgx-h100" : preset.name);
    const std::string section = is_model ? "model." : "system.";
    for (const NumberSource& source : s.sources) {
      if (source.field.rfind(section, 0) == 0) {
        INFO(source.field);
        CHECK_FALSE(source.source.empty());
        CHECK(source.source != "given in the scenario");
        CHECK((source.source != "default" || kMayDefault.count(source.field) == 1));
      }
    }
  }
  CHECK(names == std::set<std::string>{"deepseek-v3-like", "dgx-a100",       "dgx-b200",
                                       "dgx-h100",         "dgx-h200",       "ernie-4.5-21b-a3b",
                                       "glm-4.5",          "glm-4.5-air",    "gpt2",
                                       "gpt2-large",       "gpt2-medium",    "gpt2-xl",
                                       "gpt3-175b",        "internevo-a100", "jean-zay-a100",
                                       "llama2-13b",       "llama2-70b",     "llama2-7b",
                                       "llama3-405b",      "llama3-70b",     "llama3-8b",
                                       "megascale-a100",   "mixtral-8x7b",   "mosaicml-a100",
                                       "mosaicml-h100",    "qwen3-0.6b",     "qwen3-1.7b",
                                       "qwen3-235b-a22b",  "qwen3-30b-a3b",  "qwen3-32b",
                                       "selene",           "vtrain-a100",    "zero-bubble-a100"});
}

// The models' published parameter counts, against a count written here, weight by weight, and not
// the loader's formula. Source: tensor shapes of the checkpoints on Hugging Face.
TEST_CASE("the models have their published numbers of parameters") {
  const auto count = [](const ModelSpec& m) {
    const std::int64_t h = m.hidden_size;
    const std::int64_t f = m.ffn_hidden_size;
    const std::int64_t a = m.head_dim * m.num_attention_heads;
    const std::int64_t kv = m.head_dim * m.num_query_groups;
    std::int64_t total = m.vocab_size * h;  // token embedding
    for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
      if (m.family == ModelFamily::gpt2) {
        total += 2 * (h + h);            // two layer norms: gain and bias
        total += h * 3 * h + 3 * h;      // query, key, value
        total += h * h + h;              // projection
        total += h * f + f + f * h + h;  // feed-forward
      } else {
        total += h + h;                            // two RMS norms: gain
        total += a * h + kv * h + kv * h + h * a;  // query, key, value, output
        if (m.query_key_norm == QueryKeyNorm::per_head) total += m.head_dim + m.head_dim;
        if (m.query_key_value_bias) total += a + kv + kv;
        if (m.num_experts == 0 || layer < m.first_dense_layers) {
          total += h * f + h * f + f * h;  // gate, up, down
          continue;
        }
        total += m.num_experts * h;  // router
        for (std::int64_t i = 0; i < m.num_experts; ++i) total += 3 * h * m.moe_ffn_hidden_size;
        total += 3 * h * m.moe_shared_ffn_hidden_size;
      }
    }
    total += m.family == ModelFamily::gpt2 ? m.max_position_embeddings * h + h + h : h;
    return m.tied_embeddings ? total : total + m.vocab_size * h;
  };
  const std::map<std::string, std::int64_t> published = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},
      {"mixtral-8x7b", 46'702'792'704},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      // Without the biases of the choice, which are not trained: one per expert and layer.
      {"ernie-4.5-21b-a3b", 21'825'437'888 - 27 * 64},
      {"glm-4.5-air", 106'852'251'264 - 45 * 128},
      {"glm-4.5", 352'797'829'024 - 89 * 160},
  };
  for (const auto& [name, parameters] : published) {
    INFO(name);
    const ModelSpec model = with_presets(name, "dgx-h100").model;
    CHECK(count(model) == parameters);
    CHECK(num_parameters(model) == parameters);
  }
  // 671B with latent attention, which has a little less than the plain one that stands in for it.
  const ModelSpec deepseek = with_presets("deepseek-v3-like", "dgx-h100").model;
  CHECK(num_parameters(deepseek) == count(deepseek));
  CHECK(static_cast<double>(num_parameters(deepseek)) == Approx(671e9).epsilon(0.005));
  // Brown et al. 2020 print "175.0B" for a count they do not spell out.
  const ModelSpec gpt3 = with_presets("gpt3-175b", "dgx-h100").model;
  CHECK(num_parameters(gpt3) == count(gpt3));
  CHECK(static_cast<double>(num_parameters(gpt3)) == Approx(175.0e9).epsilon(0.005));
}

// Limits and memory estimates rest on the formula, training on the model's own table.
TEST_CASE("the formula counts the parameters of the models that are trained") {
  const auto built = [](const ModelSpec& m) {
    ModelOptions options;
    options.family = to_string(m.family);
    options.num_layers = m.num_layers;
    options.hidden_size = m.hidden_size;
    options.ffn_hidden_size = m.ffn_hidden_size;
    options.num_attention_heads = m.num_attention_heads;
    options.num_query_groups = m.num_query_groups;
    options.head_dim = m.head_dim;
    options.query_key_norm = m.query_key_norm;
    options.rotary_dim = m.rotary_dim;
    options.query_key_value_bias = m.query_key_value_bias;
    options.attention_out_bias = m.attention_out_bias;
    options.delta_net = m.delta_net;
    options.mamba = m.mamba;
    for (std::int64_t i = 0; i < m.num_layers && !m.layers.empty(); ++i) {
      options.layers.push_back(
          {.mixer = m.layer(i).mixer, .feed_forward = m.layer(i).feed_forward});
    }
    options.vocab_size = m.vocab_size;
    options.seq_len = m.seq_len;
    options.max_position_embeddings = m.max_position_embeddings;
    options.tied_embeddings = m.tied_embeddings;
    if (m.num_experts > 0) {
      options.moe.num_experts = m.num_experts;
      options.moe.experts_per_token = m.num_experts_per_token;
      options.moe.ffn_hidden_size = m.moe_ffn_hidden_size;
      options.moe.shared_ffn_hidden_size = m.moe_shared_ffn_hidden_size;
      options.moe.first_dense_layers = m.first_dense_layers;
      options.moe.has_shared_gate = m.moe_shared_gate;
      options.moe.has_expert_bias = m.moe_expert_bias;
      options.moe.router.has_logit_bias = m.moe_router_logit_bias;
    }
    const auto model = make_model(options);
    std::int64_t total = 0;
    for (const ParameterSpec& parameter : model->parameters()) {
      total += parameter.shape.numel();
    }
    return total;
  };
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder == "models") {
      INFO(preset.name);
      const ModelSpec model = with_presets(preset.name, "dgx-h100").model;
      CHECK(built(model) == num_parameters(model));
    }
  }
  for (const char* name : {"mlp-ddp", "gpt-hsdp", "llama-zero3", "llama-delta-net-fsdp4-tp2",
                           "llama-mamba-tp2-pp2-sp"}) {
    INFO(name);
    const ModelSpec model = load_scenario(std::string("scenarios/verify-") + name + ".json").model;
    CHECK(built(model) == num_parameters(model));
    ModelSpec tied = model;
    tied.tied_embeddings = model.family == ModelFamily::llama;
    CHECK(built(tied) == num_parameters(tied));
  }
}

TEST_CASE("an mlp counts its weights and biases") {
  ModelSpec m;
  m.family = ModelFamily::mlp;
  m.hidden_size = 3;
  m.ffn_hidden_size = 5;
  m.num_layers = 2;
  m.vocab_size = 4;
  // 3 -> 5 -> 5 -> 4
  CHECK(num_parameters(m) == (3 * 5 + 5) + (5 * 5 + 5) + (5 * 4 + 4));
}

TEST_CASE("the machines have the figures of their datasheets") {
  struct Row {
    const char* name;
    double intra, inter, bf16, memory_gb_per_s;
    std::int64_t least_gb;
  };
  for (const Row& row :
       {Row{"dgx-a100", 300, 25, 312, 2039, 80}, Row{"dgx-h100", 450, 50, 989, 3350, 80},
        Row{"dgx-h200", 450, 50, 989, 4800, 141}, Row{"dgx-b200", 900, 50, 2250, 8000, 180},
        // Those of published measurements: links between nodes are what tells them apart.
        Row{"selene", 300, 25, 312, 2039, 80}, Row{"jean-zay-a100", 300, 6.25, 312, 2039, 80},
        Row{"vtrain-a100", 300, 12.5, 312, 2039, 80}, Row{"mosaicml-a100", 300, 25, 312, 2039, 80},
        Row{"mosaicml-h100", 450, 50, 989, 3350, 80}, Row{"megascale-a100", 300, 25, 312, 2039, 80},
        Row{"internevo-a100", 300, 6.25, 312, 2039, 80},
        Row{"zero-bubble-a100", 300, 25, 312, 2039, 80}}) {
    INFO(row.name);
    const SystemSpec s = with_presets("gpt2", row.name).system;
    CHECK(s.gpus_per_node == 8);
    CHECK(s.intra_node.bandwidth_gb_per_s == row.intra);
    CHECK(s.inter_node.bandwidth_gb_per_s == row.inter);
    CHECK(s.device.peak_tflops.bf16 == row.bf16);
    CHECK(s.device.memory_bandwidth_gb_per_s == row.memory_gb_per_s);
    // The memory that a program can use is at least the round number that is sold, in decimal GB.
    CHECK(s.device.memory_bytes >= row.least_gb * 1'000'000'000);
    CHECK(s.device.memory_bytes < row.least_gb * 1'100'000'000);
  }
}

// Machines can be compared only if what is called efficiency is the same on each.
TEST_CASE("all machines take their efficiencies by one definition, the best that was measured") {
  const std::map<std::string, double> best_matmul = {
      {"dgx-a100", 0.869},      {"dgx-h100", 0.803},       {"dgx-h200", 0.803},
      {"dgx-b200", 0.655},      {"selene", 0.869},         {"jean-zay-a100", 0.869},
      {"vtrain-a100", 0.869},   {"megascale-a100", 0.869}, {"mosaicml-a100", 0.869},
      {"mosaicml-h100", 0.803}, {"internevo-a100", 0.869}, {"zero-bubble-a100", 0.869}};
  for (const auto& [name, share] : best_matmul) {
    INFO(name);
    const Scenario s = with_presets("gpt2", name);
    CHECK(s.system.device.matmul_efficiency == share);
    int num_found = 0;
    for (const NumberSource& source : s.sources) {
      INFO(source.field);
      if (source.field == "system.device.matmul_efficiency") {
        ++num_found;
        CHECK(source.source.rfind("best shape's share, an upper bound for a whole step: ", 0) == 0);
      } else if (source.field == "system.device.memory_efficiency") {
        ++num_found;
        // An assumption starts with that word, by which reports count it.
        const bool assumed = source.source.rfind("assumed: ", 0) == 0;
        CHECK(assumed == (name == "dgx-h100" || name == "dgx-h200" || name == "mosaicml-h100"));
        CHECK(source.source.find("best kernel's share, an upper bound for a whole step: ") ==
              (assumed ? 9 : 0));
      }
    }
    CHECK(num_found == 2);
  }
}

TEST_CASE("presets beside the scenario come before the built-in ones") {
  const Scenario s = load_scenario("tests/scenarios/data/own_preset.json");
  CHECK(s.model.num_layers == 1);
  CHECK(s.system.name == "NVIDIA DGX A100");
}

TEST_CASE("built-in presets are found beside an executable that was moved, built or installed") {
  CHECK(preset_directories_beside("", "..").empty());
  const test::TemporaryFolder folder;
  // Meson's stamp of this test's own build.
  const std::string stamp = build_root_of(this_executable()).value() + "/shardsim-build-tree";
  const auto program = [&](const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    std::ofstream(folder / name) << "a program";
    return folder / name;
  };
  const auto found = [&](const std::string& name, const std::string& root) {
    return preset_directories_beside(program(name), root).at(0);
  };
  const std::string checkout = folder / "scenarios";
  CHECK(found("bin/shardsim", "..") == folder / "share/shardsim");
  CHECK(found("build/sim/command/shardsim", "..") == folder / "build/sim/share/shardsim");
  std::filesystem::copy(stamp, folder / "build/shardsim-build-tree");
  CHECK(found("build/sim/command/shardsim", "..") == checkout);
  CHECK(found("build/tests/test_app", "..") == checkout);
  CHECK(found("build/shardsim", "..") == checkout);
  CHECK(found("build/sim/command/shardsim", "../copy") == folder / "copy/scenarios");
  CHECK(found("build/far/too/deep/shardsim", "..") == folder / "build/far/too/share/shardsim");
}

TEST_CASE("where no preset is found, the error names the folders and the way to name another") {
  const std::string help = no_presets_help({"here", "there"});
  CHECK(help.find("\"here\", \"there\"") != std::string::npos);
  CHECK(help.find("SHARDSIM_PRESETS") != std::string::npos);
  const char* const variable = "SHARDSIM_PRESETS";
  REQUIRE(setenv(variable, "tests/scenarios/no_such_folder", 1) == 0);
  CHECK(list_builtin_presets().empty());
  const Problem problem = only_problem_of(
      R"({"schema_version": 1, "model": "gpt2", "training": {"global_batch_size": 8},
          "system": {"nodes": 1, "gpus_per_node": 1,
                     "intra_node": {"bandwidth_gb_per_s": 1, "latency_us": 1},
                     "inter_node": {"bandwidth_gb_per_s": 1, "latency_us": 1},
                     "device": {"memory_gib": 1, "memory_bandwidth_gb_per_s": 1,
                                "memory_efficiency": 1, "peak_tflops": {"bf16": 1},
                                "matmul_efficiency": 1, "kernel_launch_us": 0}}})");
  REQUIRE(unsetenv(variable) == 0);
  CHECK(problem.code == "E0105");
  CHECK(problem.help.find("tests/scenarios/no_such_folder") != std::string::npos);
}

TEST_CASE("a preset whose file cannot be read is an error that names it") {
  CHECK(preset_text({"models", "own", "tests/scenarios/data/models/broken.json"}) ==
        content_of("tests/scenarios/data/models/broken.json"));
  for (const char* path : {"tests/scenarios/data/models/gone.json", "tests/scenarios/data"}) {
    try {
      preset_text({"models", "gone", path});
      FAIL("there is no such file");
    } catch (const ScenarioError& error) {
      CHECK(error.code() == "E0001");
      CHECK(error.problems()[0].file == path);
      CHECK_FALSE(error.fix().empty());
    }
  }
}

TEST_CASE("an error inside a preset names the preset's file") {
  try {
    load_scenario("tests/scenarios/data/own_preset.json", {"model.preset=broken"});
    FAIL("the preset is not valid");
  } catch (const ScenarioError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.problems()[0].file == "tests/scenarios/data/models/broken.json");
    CHECK(error.problems()[0].line == 3);
    CHECK(error.problems()[0].pointer == "/model/layers");
  }
}
