#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/presets.hpp"
#include "sim/command/gpu_facts.hpp"
#include "sim/command/python_part.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/programs/fake_python.hpp"
#include "tests/rendezvous/patience.hpp"

// `shardsim torch` without PyTorch: a script of the shell stands for Python and its recorder.
namespace shardsim::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Ends with its arguments, a line each, in `words` and the folder of --out as $out.
constexpr const char* kReadWords = R"(#!/bin/sh
here=$(dirname "$0")
printf '%s\n' "$@" > "$here/words"
printf '%s\n' "$PYTHONPATH" > "$here/path"
while [ "$1" != --out ]; do shift; done
out=$2
)";

constexpr const char* kWriteRecord = R"(mkdir -p "$out"
cat > "$out/rank-0.jsonl" <<'RECORD'
{"shardsim_program": 1, "name": "canned", "ranks": 16, "recorded": 0}
{"operation": {"name": "product", "kind": "matmul", "dtype": "bf16", "flops": 1000000000, "bytes": 6000000}}
{"call": {"group": "world", "kind": "all_reduce", "dtype": "fp32", "count": 1000, "reduction": "sum"}}
{"program": {"rank": 0}}
{"steps": "c0 p0:0 w0"}
RECORD
echo said by the script
)";

json facts_of(const std::string& system, const std::vector<std::string>& overrides = {}) {
  return json::parse(gpu_facts_json(scenario_of_system(system, overrides).system));
}

}  // namespace

TEST_CASE("a script is recorded, and its records are replayed on the same machine") {
  const FakePython python(std::string(kReadWords) + kWriteRecord);
  const std::string kept = python / "kept";
  const std::vector<std::string> machine = {"--system", "dgx-a100", "--set",
                                            "system.inter_node.bandwidth_gb_per_s=5"};
  std::vector<std::string> words = {"torch", "--world", "16", "--out", kept};
  words.insert(words.end(), machine.begin(), machine.end());
  words.insert(words.end(), {"train.py", "--lr", "0.1"});
  const Printed printed = shardsim(words);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  CHECK(contains(printed.err, "said by the script\n"));
  CHECK_FALSE(contains(printed.out, "said by"));

  std::vector<std::string> again = {"replay", kept};
  again.insert(again.end(), machine.begin(), machine.end());
  CHECK(printed.out == shardsim(again).out);
  CHECK(contains(printed.out, "on 2 x 8 NVIDIA DGX A100"));
  CHECK(printed.out != shardsim({"replay", kept}).out);
  CHECK(json::parse(shardsim({"torch", "--world=16", "--json", "train.py"}).out)["ranks"] == 16);
  CHECK(python.left_nothing());
}

TEST_CASE("the recorder gets the machine's facts, and the script its words as they are") {
  const FakePython python(std::string(kReadWords) + kWriteRecord);
  const std::vector<std::string> own = {"--world", "9", "-h", "[1,2]", "", "--", "train.py", "run"};
  std::vector<std::string> words = {"--color", "never", "torch",     "--world", "16",
                                    "--ranks", "0,3",   "--steps=5", "-q",      "train.py"};
  words.insert(words.end(), own.begin(), own.end());
  const Printed printed = shardsim(words);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const std::string told = content_of(python / "words");
  CHECK(contains(told, "-m\nshardsim.torch.record\n--world\n16\n--ranks\n0,3\n--steps\n5\n"));
  CHECK(contains(
      told, "--gpu-facts\n" + gpu_facts_json(scenario_of_system("dgx-h100", {}).system) + "\n"));
  CHECK(told.ends_with("--\ntrain.py\n--world\n9\n-h\n[1,2]\n\n--\ntrain.py\nrun\n"));
  const std::string path = content_of(python / "path");
  CHECK(fs::exists(path.substr(0, path.find_first_of(":\n")) + "/shardsim/torch/record.py"));
}

TEST_CASE("a recorder that fails ends the command with its status and text, without a replay") {
  const FakePython python(std::string(kReadWords) + "echo rank 3 has failed >&2\nexit 41\n");
  const Printed printed = shardsim({"torch", "--world", "8", "--json", "train.py"});
  CHECK(printed.exit_code == 41);
  CHECK(printed.err == "rank 3 has failed\n");
  CHECK(printed.out.empty());
  CHECK(python.left_nothing());
}

TEST_CASE("an interrupt ends the recorder and all that it has started") {
  const FakePython python(std::string(kReadWords) +
                          "sleep 600 &\necho $! > \"$here/child\"\nkill -INT $PPID\nwait\n");
  const Printed printed = shardsim({"torch", "--world", "8", "train.py"});
  CHECK(printed.exit_code == 130);
  CHECK(contains(printed.err, "E9000"));
  CHECK(python.left_nothing());
  const int child = std::stoi(content_of(python / "child"));
  CHECK(eventually([child] { return is_gone(child); }));
}

TEST_CASE("what cannot be recorded is refused before anything is started") {
  const FakePython python(std::string(kReadWords) + "exit 0\n");
  const Mistake mistakes[] = {
      {{"torch"}, "E0905", "shardsim torch --world 8 train.py"},
      {{"torch", "train.py"}, "\"--world\"", "shardsim torch --world 8 train.py"},
      {{"torch", "--wrold", "8", "train.py"}, "\"--wrold\" is not an option", "\"--world\""},
      {{"torch", "--world", "0", "train.py"}, "--world", "torch --help"},
      {{"torch", "--world", "12", "train.py"}, "E1087", "gpus_per_node"},
      {{"torch", "--world", "8", "--system", "dgx-h10", "train.py"}, "E1087", "dgx-h100"},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim(mistake.arguments);
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
  }
  CHECK_FALSE(fs::exists(python / "words"));
}

TEST_CASE("a Python or a package that is not there is named, with the variable for another") {
  const std::vector<std::string> words = {"torch", "--world", "8", "train.py"};
  {
    const Variable python("SHARDSIM_PYTHON", "/nowhere/python3");
    const Printed printed = shardsim(words);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "error[E1389]: cannot start /nowhere/python3"));
    CHECK(contains(printed.err, "set SHARDSIM_PYTHON"));
  }
  const Variable package("SHARDSIM_PYTHON_PATH", "/nowhere/python");
  const Printed printed = shardsim(words);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E1388]"));
  CHECK(contains(printed.err, "\"/nowhere/python\""));
  CHECK(contains(printed.err, "SHARDSIM_PYTHON_PATH"));
}

TEST_CASE("the package of an installed or a copied command lies beside it") {
  CHECK(python_folders_beside("/opt/bin/shardsim", "..") ==
        std::vector<std::string>{"/opt/share/shardsim/python", "/opt/bin/python"});
}

TEST_CASE("the facts of a GPU are those of the machine, as far as it says them") {
  CHECK(facts_of("dgx-h100") == json({{"name", "NVIDIA H100 SXM 80GB"},
                                      {"memory_bytes", std::int64_t{81559} << 20U},
                                      {"compute_capability", {9, 0}},
                                      {"multiprocessors", 132},
                                      {"gpus_per_node", 8}}));
  CHECK(facts_of("dgx-a100")["compute_capability"] == json({8, 0}));
  CHECK(facts_of("dgx-a100", {"system.device.kernels=a100-pcie"})["compute_capability"] ==
        json({8, 0}));
  CHECK(facts_of("dgx-h200")["compute_capability"] == json({9, 0}));
  CHECK(facts_of("dgx-b200")["compute_capability"] == json({10, 0}));
  CHECK(facts_of("dgx-b200")["multiprocessors"] == 148);
  const json other = facts_of("dgx-a100", {"system.device.kernels=none", "system.gpus_per_node=4",
                                           "system.device.memory_gib=40"});
  CHECK(other["compute_capability"].is_null());
  CHECK(other["multiprocessors"].is_null());
  CHECK(other["gpus_per_node"] == 4);
  CHECK(other["memory_bytes"] == std::int64_t{40} << 30U);
  CHECK(json::parse(shardsim({"torch", "--gpu-facts", "--system", "dgx-h200"}).out) ==
        facts_of("dgx-h200"));
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder != "systems") continue;
    INFO(preset.name);
    const json facts = facts_of(preset.name);
    const bool is_nvidia = facts["name"].get<std::string>().starts_with("NVIDIA ");
    CHECK(facts["multiprocessors"].is_null() != is_nvidia);
    if (is_nvidia) CHECK(facts["multiprocessors"] >= 78);
  }
}

}  // namespace shardsim::test
