#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/wrapped_text.hpp"

#include "tests/app/command_fixture.hpp"

// Slips of the finger, and words of other programs: the answer names what was meant.
namespace shardsim::test {
namespace {

// The way out that an error proposes.
std::string help_for(const std::vector<std::string>& words) {
  const Printed printed = shardsim(words);
  CHECK(printed.exit_code == 2);
  const std::size_t help = printed.err.find("= help: ");
  REQUIRE(help != std::string::npos);
  return printed.err.substr(help);
}

}  // namespace

TEST_CASE("desk point 11: a mistyped verb is answered with the verb", "[desk-11]") {
  CHECK(contains(help_for({"deom"}), "write \"shardsim demo\""));
  CHECK(contains(help_for({"chek", kPlan}), "write \"shardsim check\""));
  CHECK(contains(help_for({"compare", "a.json", "b.json"}), "write \"shardsim diff\""));
  CHECK(contains(shardsim({"deom"}).err, "error[E0916]: \"deom\" is neither a verb nor a file"));
  CHECK(contains(help_for({"pre-sets"}), "write \"shardsim presets\""));
  CHECK(contains(help_for({"xyzzy"}), "= help: the verbs are \"run\", "));
  // Names of files stay names of files.
  CHECK(contains(shardsim({"deom.json"}).err, "error[E0001]: cannot find \"deom.json\""));
  CHECK(contains(shardsim({"run", "deom"}).err, "error[E0001]: cannot find \"deom\""));
}

TEST_CASE("desk point 11: the version is printed by every spelling", "[desk-11]") {
  const std::string version = shardsim({"--version"}).out;
  CHECK(version.starts_with("shardsim "));
  CHECK(shardsim({"-v"}).out == version);
  CHECK(shardsim({"version"}).out == version);
  CHECK(contains(help_for({"--verison"}), "write \"--version\""));
}

TEST_CASE("desk point 11: a letter is not answered with another, a file with its content",
          "[desk-11]") {
  CHECK_FALSE(contains(help_for({"diff", kPlan, kPlan, "-x"}), "write"));
  CHECK(contains(help_for({kPlan, "--set", "system.nccl=network.json"}),
                 "write --set \"system.nccl=$(cat network.json)\" for what the file holds"));
  CHECK(contains(help_for({kPlan, "--set", "system.device.kernel_constants=kernels.json"}),
                 "write --set \"system.device.kernel_constants=$(cat kernels.json)\""));
  CHECK_FALSE(contains(shardsim({kPlan, "--set", "system.nccl=ring"}).err, "cat"));
  // Layouts are printed with short names.
  CHECK(contains(help_for({"plan", "llama3-8b", "--gpus", "8", "--gpu", "h100", "--fix", "mb=2"}),
                 "did you mean \"micro_batch_size\"?"));
}

TEST_CASE("desk point 11: options of other programs are answered with the field", "[desk-11]") {
  CHECK(contains(help_for({kPlan, "--tp", "8"}), "write \"--set parallelism.tp=8\""));
  CHECK(contains(help_for({kPlan, "--tp=8"}), "write \"--set parallelism.tp=8\""));
  CHECK(contains(help_for({kPlan, "--tensor-model-parallel-size", "8"}),
                 "write \"--set parallelism.tp=8\""));
  CHECK(contains(help_for({kPlan, "--sequence-parallel"}),
                 "write \"--set parallelism.sequence_parallel=true\""));
  CHECK(contains(help_for({kPlan, "--seq-len"}), "write \"--set model.seq_len=VALUE\""));
  // The planner fixes an axis, and a verb without fields proposes none.
  CHECK(contains(help_for({"plan", "llama3-8b", "--tp", "8"}), "write \"--fix tp=8\""));
  CHECK_FALSE(contains(help_for({"presets", "--tp", "8"}), "--set"));
  // A value is answered with the choice.
  CHECK(contains(help_for({"check", kPlan, "--output-format=junti"}), "write \"junit\"; "));
  CHECK(contains(help_for({"--color=allways", kPlan}), "write \"always\"; "));
  CHECK_FALSE(contains(help_for({"check", kPlan, "--output-format=xyzzy"}), "write "));
}

TEST_CASE("desk point 11: presets, software and metrics are answered with near names",
          "[desk-11]") {
  CHECK(contains(help_for({"presets", "llama3-70"}), "write \"llama3-70b\""));
  CHECK(contains(help_for({"presets", "dgx"}), "\"dgx-h100\""));
  // Names of models fill a screen: the near ones are printed, and the command that lists the rest.
  const std::string models = "\"shardsim presets models\" lists ";
  CHECK(help_for({"check", kPlan, "--set", "model=llama3-7b"}) ==
        "= help: write \"llama2-7b\", \"llama3-70b\", \"llama3-8b\", \"llama2-70b\" or "
        "\"llama2-13b\"; " +
            models + "the rest\n");
  CHECK(help_for({"check", kPlan, "--set", "model=xyzzy"}) == "= help: " + models + "all\n");
  CHECK(contains(help_for({"plan", "qwen3", "--gpus", "8", "--gpu", "h100"}),
                 "or \"qwen3-30b-a3b\"; " + models + "the rest"));
  CHECK(contains(help_for({"collective", "all_reduce", "--system", "h1000"}),
                 "write \"dgx-h100\", "));
  const Printed gpu = shardsim({"check", kPlan, "--set", "system.preset=h100"});
  CHECK(contains(gpu.err, "a GPU; the machine of it is \"dgx-h100\""));
  CHECK(contains(gpu.err, "= help: write \"dgx-h100\""));
  CHECK(contains(help_for({"check", kPlan, "--set", "system.software=torchtitan"}),
                 "write \"torchtitan-2024\" or \"torchtitan-2025\""));
  CHECK(contains(
      help_for({"check", kPlan, "--set", R"(expect=[{"metric":"mfuu","op":">=","value":0.1}])"}),
      "write \"mfu\""));
  CHECK(contains(help_for({"check", kPlan, "--set",
                           R"(expect=[{"metric":"memory.peak_bytes","op":">=","value":1}])"}),
                 "write \"memory.peak_bytes.max\""));
}

TEST_CASE("desk point 11: a GPU in a file is rewritten by fix", "[desk-11]") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.json";
  write(file, R"({"schema_version": 1, "model": "llama3-8b",
                  "system": {"preset": "h100", "nodes": 1},
                  "training": {"global_batch_size": 8}})");
  CHECK(shardsim({"fix", file}).exit_code == 0);
  CHECK(contains(content_of(file), R"("preset": "dgx-h100")"));
}

TEST_CASE("desk point 11: presets are tables with parameters, GPUs, peaks and sources",
          "[desk-11]") {
  CHECK(shardsim({"presets", "h100"}).out == shardsim({"presets", "dgx-h100"}).out);
  const std::string models = shardsim({"presets", "models"}).out;
  const std::string systems = shardsim({"presets", "systems"}).out;
  CHECK(shardsim({"presets"}).out == models + "\n" + systems);
  CHECK(contains(models,
                 "  llama3-70b                     70.6 B      80   8,192    8,192  "
                 "config.json of meta-llama/Meta-Llama-3-70B on Hugging Face\n"));
  CHECK(contains(systems, "NVIDIA H100 datasheet (SXM)\n"));

  using nlohmann::json;
  const json all = json::parse(shardsim({"presets", "--json"}).out);
  CHECK(all["models"] == json::parse(shardsim({"presets", "models", "--json"}).out)["models"]);
  const json machines = json::parse(shardsim({"presets", "systems", "--json"}).out);
  CHECK(machines.size() == 1);
  const auto h100 = std::ranges::find_if(machines["systems"],
                                         [](const json& row) { return row["name"] == "dgx-h100"; });
  REQUIRE(h100 != machines["systems"].end());
  CHECK((*h100)["gpus_per_node"] == 8);
  CHECK((*h100)["peak_tflops"]["bf16"] == 989.0);
  CHECK(contains((*h100)["source"].get<std::string>(), "NVIDIA H100 datasheet"));
}

TEST_CASE("desk point 13: --set a.b=null takes a field out", "[desk-13]") {
  const auto scenario_with = [](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {kPlan, "--json"};
    for (const std::string& flag : flags) {
      words.emplace_back("--set");
      words.push_back(flag);
    }
    return nlohmann::json::parse(shardsim(words).out).at("scenario");
  };
  // The default, and what the preset says, take the place of what the file says.
  CHECK(scenario_with({})["parallelism"]["zero_stage"] == 3);
  CHECK(scenario_with({"parallelism.zero_stage=null"})["parallelism"]["zero_stage"] == 0);
  CHECK(scenario_with({"model.seq_len=4096"})["model"]["seq_len"] == 4096);
  CHECK(scenario_with({"model.seq_len=4096", "model.seq_len=null"})["model"]["seq_len"] == 8192);
  CHECK(scenario_with({"output=null", "cost=null"}) == scenario_with({}));
  const Printed needed = shardsim({kPlan, "--set", "training.global_batch_size=null"});
  CHECK(contains(needed.err, "error[E0103]"));
  const Printed unknown = shardsim({kPlan, "--set", "training.batch=null"});
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "error[E0107]: there is no field \"training.batch\" to unset"));
}

TEST_CASE("desk point 13: text is broken at blanks and keeps its words", "[desk-13]") {
  const std::string text = "one two three four five six seven";
  CHECK(wrapped("help: ", text, 0, 6) == "help: " + text + "\n");
  CHECK(wrapped("help: ", text, 16, 6) ==
        "help: one two\n      three four\n      five six\n      seven\n");
  CHECK(wrapped("", "averylongwordthatisapath x", 10, 2) == "averylongwordthatisapath\n  x\n");
  CHECK(wrapped("", "", 10, 2) == "\n");
  CHECK(wrapped("", "\u00fc\u00fc\u00fc \u00fc\u00fc", 6, 0) ==
        "\u00fc\u00fc\u00fc \u00fc\u00fc\n");
  CHECK(columns_of("a\u00fcbc", 1, 2) == "\u00fcb");
}

}  // namespace shardsim::test
