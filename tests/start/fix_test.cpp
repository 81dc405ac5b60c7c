#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/load.hpp"
#include "sim/command/command_fix.hpp"

#include "tests/app/command_fixture.hpp"

// `shardsim fix`: what leaves no doubt is rewritten, and nothing else.
namespace shardsim::test {
namespace {

// A scenario as somebody writes it who knows other programs.
const char* const kForeign = R"({
  // My cluster
  "name": "mine",
  "model": { "preset": "llama3-8b", "seq_length": 4096 }, // tokens
  "system": { "preset": "dgx-h100", "nnodes": 2 },
  "parallelism": {
    "tensor_model_parallel_size": 8,   /* within a node */
    "enable_sequence_parallel": true, "zero_stag": 1,
  },
  "training": { "train_batch_size": "16", "torch_dtype": "bfloat16", "optimzer": "adamw" }
  "execution": { "tensors": "meta" }
}
)";
const char* const kOurs = R"({
  "schema_version": 1,
  // My cluster
  "name": "mine",
  "model": { "preset": "llama3-8b", "seq_len": 4096 }, // tokens
  "system": { "preset": "dgx-h100", "nodes": 2 },
  "parallelism": {
    "tp": 8,   /* within a node */
    "sequence_parallel": true, "zero_stage": 1
  },
  "training": { "global_batch_size": 16, "precision": "bf16", "optimizer": "adamw" },
  "execution": { "tensors": "meta" }
}
)";

// A text that loads, with one section's content replaced.
std::string with_parallelism(const std::string& content) {
  return R"({"schema_version":1,"model":"llama3-8b","system":{"preset":"dgx-h100","nodes":1},)"
         R"("training":{"global_batch_size":8},"execution":{"tensors":"meta"},"parallelism":{)" +
         content + "}}";
}

}  // namespace

TEST_CASE("foreign names, slips and commas are corrected, comments and layout stay") {
  const FixedScenario fixed = fix_scenario(kForeign, "mine.json");
  CHECK(fixed.text == kOurs);
  CHECK_FALSE(fixed.problems.has_value());
  CHECK(fixed.applied.size() == 11);
  CHECK(load_scenario_text(fixed.text, "mine.json").parallelism.tp == 8);
  // Nothing is left to fix.
  const FixedScenario again = fix_scenario(fixed.text, "mine.json");
  CHECK(again.text == fixed.text);
  CHECK(again.applied.empty());
}

TEST_CASE("lists have slips in their names, and torchtitan's -1 is auto") {
  const FixedScenario all =
      fix_scenario(with_parallelism(R"("data_parallel_shard_degree": -1)"), "mine.json");
  CHECK_FALSE(all.problems.has_value());
  CHECK(all.text == with_parallelism(R"("dp_shard": "auto")"));
  const std::string wrong = with_parallelism(R"("tp": 1}, "faults": {"straglers": [)"
                                             R"({"rank": 3, "slowdwn": 1.2}])");
  const FixedScenario list = fix_scenario(wrong, "mine.json");
  CHECK_FALSE(list.problems.has_value());
  CHECK(list.text == with_parallelism(R"("tp": 1}, "faults": {"stragglers": [)"
                                      R"({"rank": 3, "slowdown": 1.2}])"));
  // A value that is no list is no list of stragglers.
  const FixedScenario other = fix_scenario(
      with_parallelism(R"("tp": 1}, "faults": {"straglers": {"rank": 3})"), "mine.json");
  CHECK(other.applied.empty());
}

TEST_CASE("what could mean something else is left alone and told") {
  const char* const doubtful[] = {
      R"("dp": 8)",                               // As near to tp as to pp.
      R"("tp": 1, "tensor_parallel_degree": 8)",  // Which of them?
      R"("tensor_parallel_degree": 8, "autotp_size": 4)",
      R"("num_layers_per_virtual_pipeline_stage": 2)",  // Layers, not chunks.
      R"("bucket_cap_mb": 25)",                         // Another unit.
      R"("data_parallel_shard_degree": -2)",            // Out of range for us.
      R"("data_parallel_replicate_degree": -1)",
      R"("tensor_model_parallel_size": "eight")",
      R"("zero_stage": true)",
      R"("recompute_granularity": "selective")",  // In another section, and other tensors.
  };
  for (const char* content : doubtful) {
    INFO(content);
    const std::string text = with_parallelism(content);
    const FixedScenario fixed = fix_scenario(text, "mine.json");
    REQUIRE(fixed.problems.has_value());
    // At most the first of two names for one key was taken.
    CHECK(fixed.applied.size() <=
          (std::string(content).find("autotp") != std::string::npos ? 1U : 0U));
    if (fixed.applied.empty()) CHECK(fixed.text == text);
  }
}

TEST_CASE("single mistakes and their rewrites") {
  struct Rewrite {
    const char* wrong;
    const char* right;
  };
  const Rewrite rewrites[] = {
      {R"("zero_stage": "1")", R"("zero_stage": 1)"},
      {R"("TP": 8)", R"("tp": 8)"},
      {R"("--tensor-model-parallel-size": 8)", R"("tp": 8)"},
      {R"("pp": 2, "pipeline_parallel_schedule": "1F1B")", R"("pp": 2, "schedule": "1f1b")"},
      {R"("pp": 2, "schedule": "1f1bb")", R"("pp": 2, "schedule": "1f1b")"},
      {R"("rank_ordr": "tp-dp-pp")", R"("rank_order": "tp-dp-pp")"},
      {R"("overlap_comm": false)", R"("overlap_grad_reduce": false)"},
  };
  for (const Rewrite& rewrite : rewrites) {
    INFO(rewrite.wrong);
    const FixedScenario fixed = fix_scenario(with_parallelism(rewrite.wrong), "mine.json");
    CHECK(fixed.text == with_parallelism(rewrite.right));
    CHECK_FALSE(fixed.problems.has_value());
  }
  const std::string loads = with_parallelism("");
  CHECK(fix_scenario("\xef\xbb\xbf" + loads, "mine.json").text == loads);
  // A preset's name; a section's.
  for (const char* slip : {"\"llama3-8B\"", "\"lama3-8b\""}) {
    std::string text = loads;
    text.replace(text.find("\"llama3-8b\""), 11, slip);
    CHECK(fix_scenario(text, "mine.json").text == loads);
  }
  std::string text = loads;
  text.replace(text.find("\"training\""), 10, "\"trainning\"");
  CHECK(fix_scenario(text, "mine.json").text == loads);
}

TEST_CASE("shipped scenarios have nothing to fix") {
  for (const std::string& path : all_scenarios()) {
    const std::string text = content_of(path);
    CHECK(fix_scenario(text, path).text == text);
  }
}

TEST_CASE("errors offer what fix does, and say of how many problems") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.json";
  write(file, with_parallelism(R"("tensor_model_parallel_size": 8, "xyzzy": 1)"));
  const Printed text = shardsim({"check", file});
  CHECK(text.exit_code == 2);
  CHECK(contains(text.err, "^^^^ Megatron-LM's name; here it is \"tp\""));
  CHECK(contains(text.err, "`shardsim fix " + file + "` fixes 1 of these 2 problems\n"));

  const nlohmann::json problems =
      nlohmann::json::parse(shardsim({"check", "--json", file}).out)["errors"];
  REQUIRE(problems.size() == 2);
  CHECK(problems[0]["fix"]["message"] == "write \"tp\" for \"tensor_model_parallel_size\"");
  const nlohmann::json edit = problems[0]["fix"]["edits"][0];
  CHECK(content_of(file).substr(edit["offset"], edit["length"]) ==
        "\"tensor_model_parallel_size\"");
  CHECK(edit["text"] == "\"tp\"");
  CHECK(problems[1]["fix"].is_null());

  // A flag is no file.
  const Printed flag = shardsim({kPlan, "--set", "parallelism.tensor_model_parallel_size=8"});
  CHECK(flag.exit_code == 2);
  CHECK_FALSE(contains(flag.err, "shardsim fix"));
}

TEST_CASE("fix rewrites its file, keeps permissions, and tells each place") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.json";
  write(file, kForeign);
  const auto mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(file, mode);
  const Printed printed = shardsim({"fix", file});
  CHECK(printed.exit_code == 0);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, file + ":7:5: write \"tp\" for \"tensor_model_parallel_size\"\n"));
  CHECK(contains(printed.err, file + ": 11 places changed; it loads\n"));
  CHECK(content_of(file) == kOurs);
  CHECK(std::filesystem::status(file).permissions() == mode);
  CHECK(files_in(folder) == std::vector<std::string>{"mine.json"});
  CHECK(contains(shardsim({"fix", file}).err, "nothing changed; it loads"));
}

TEST_CASE("fix shows a diff, or writes elsewhere, and then leaves its file alone") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.json";
  write(file, kForeign);
  const Printed diff = shardsim({"fix", "--dry-run", file});
  CHECK(diff.exit_code == 0);
  CHECK(contains(diff.out, "--- a/" + file + "\n+++ b/" + file + "\n@@ -1,"));
  CHECK(contains(diff.out, "-    \"tensor_model_parallel_size\": 8,   /* within a node */\n"));
  CHECK(contains(diff.out, "+    \"tp\": 8,   /* within a node */\n"));
  CHECK(contains(diff.err, "it would load"));
  CHECK(shardsim({"fix", "-q", "-o", "-", file}).out == kOurs);
  CHECK(content_of(file) == kForeign);
  CHECK(shardsim({"fix", "-q", "-o", folder / "b.json", file}).exit_code == 0);
  CHECK(content_of(folder / "b.json") == kOurs);
}

TEST_CASE("what fix cannot correct is listed, and what it can is done all the same") {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.json";
  write(file, with_parallelism(R"("tensor_model_parallel_size": 8, "xyzzy": 1)"));
  const Printed printed = shardsim({"fix", file});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "1 place changed; some problems cannot be fixed automatically"));
  CHECK(contains(printed.err, "unknown field \"xyzzy\""));
  CHECK_FALSE(contains(printed.err, "shardsim fix " + file));
  CHECK(content_of(file) == with_parallelism(R"("tp": 8, "xyzzy": 1)"));
  CHECK(contains(shardsim({"fix", "nowhere.json"}).err, "cannot find \"nowhere.json\""));
  CHECK(contains(shardsim({"fix", "-o", "x", file, file}).err, "E1385"));
}

}  // namespace shardsim::test
