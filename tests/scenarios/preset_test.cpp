#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

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
                "\", \"nodes\": 1}, \"training\": {\"global_batch_size\": 9216}}");
}

// Fields that the kind of device or model does not have, and fields that only NCCL's model reads.
// The latter describe the fabric around a machine, a network card per GPU, and Intel's processors.
// A switch is the default, too: links of pairs are those of machines without one.
const std::set<std::string> kMayDefault = {
    "system.device.peak_tflops.fp8",  "system.device.peak_tflops.fp4",
    "system.device.power_w",          "model.rope_theta",
    "system.nics_per_node",           "system.nodes_per_pod",
    "system.oversubscription",        "system.cpu_vendor",
    "system.intra_node.pair_gb_per_s"};

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
  std::istringstream expected(
      "command-a deepseek-v2 deepseek-v2-lite deepseek-v3 deepseek-v3-like devstral-2-123b "
      "dgx-a100 dgx-b200 dgx-b300 dgx-h100 dgx-h200 ernie-4.5-21b-a3b ernie-4.5-300b-a47b "
      "exaone-4.0-32b falcon-h1-34b gaudi3 gb200-nvl72 gb300-nvl72 gemma-2-27b gemma-3-12b "
      "gemma-3-27b gemma-3-4b gemma-4-31b gh200 glm-4.5 glm-4.5-air gpt-oss-120b gpt-oss-20b "
      "gpt2 gpt2-large gpt2-medium gpt2-xl gpt3-175b granite-4.0-h-small hgx-h20 hgx-h800 "
      "hunyuan-a13b internevo-a100 jean-zay-a100 kimi-k2 ling-1t llama-4-maverick llama-4-scout "
      "llama2-13b llama2-70b llama2-7b llama3-405b llama3-70b llama3-8b llama3.2-3b "
      "megascale-a100 mi300x mi325x mi355x mimo-v2-flash minimax-m2 mistral-small-24b "
      "mixtral-8x22b mixtral-8x7b moonlight-16b-a3b mosaicml-a100 mosaicml-h100 nemotron-3-nano "
      "nemotron-3-super nemotron-3-ultra nemotron-4-340b nemotron-h-56b olmo-2-32b olmo-3-7b "
      "olmo-3.1-32b phi-4 qwen3-0.6b qwen3-1.7b qwen3-14b qwen3-235b-a22b qwen3-30b-a3b "
      "qwen3-32b qwen3-4b qwen3-8b qwen3-coder-480b-a35b qwen3-next-80b-a3b qwen3.5-27b "
      "qwen3.5-35b-a3b qwen3.5-397b-a17b seed-oss-36b selene smollm3-3b step-3.7-flash tpu-v5p "
      "tpu-v6e tpu-v7 trn2 trn2-ultraserver vtrain-a100 zero-bubble-a100");
  CHECK(names == std::set<std::string>(std::istream_iterator<std::string>(expected), {}));
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

TEST_CASE("an unknown preset is answered with those beside the scenario, which no command lists") {
  try {
    (void)load_scenario("tests/scenarios/data/own_preset.json", {"model.preset=xyzzy"});
    FAIL("there is no such preset");
  } catch (const ScenarioError& error) {
    CHECK(error.problems()[0].help ==
          "\"shardsim presets models\" lists all; beside the scenario: \"broken\"");
  }
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
