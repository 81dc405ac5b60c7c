#include <sstream>

#include <catch2/catch.hpp>

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Sequence length and batch under torchtitan's older and newer names.
namespace shardsim::test {

namespace {

Printed import_titan(const std::string& text, std::vector<std::string> options) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  options.insert(options.begin(),
                 {"import", "torchtitan", folder / "config.json", "--model", "llama3-8b"});
  return shardsim(options);
}

// "ParallelismConfig(\n    tensor_parallel_degree=8,\n)": torchtitan saves such objects as JSON
// under the names of their sections.
std::string json_of_python(const std::string& emitted) {
  std::istringstream lines(emitted);
  std::string json;
  bool first = true;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (line == "ParallelismConfig(") json += "{\"parallelism\": {";
    if (line == "TrainingConfig(") json += ", \"training\": {";
    if (line == ")") {
      json += "}";
      first = true;
    }
    if (line.rfind("    ", 0) != 0 || equals == std::string::npos) continue;
    std::string value = line.substr(equals + 1, line.size() - equals - 2);
    if (value == "True") value = "true";
    if (value == "False") value = "false";
    json += (first ? "\"" : ", \"") + line.substr(4, equals - 4) + "\": " + value;
    first = false;
  }
  return json + "}";
}

void check_round_trip(const std::string& parallelism, const std::string& training) {
  const Scenario before = load_scenario_text(
      R"({"schema_version": 1, "name": "before", "model": {"preset": "llama3-8b", "seq_len": 4096},
      "system": {"preset": "dgx-h100", "nodes": 2}, "parallelism": )" +
          parallelism + R"(, "training": )" + training + "}",
      "before.json");
  const std::string json = json_of_python(emit_torchtitan(before).text);
  INFO(json);
  const Printed printed = import_titan(json, {"--gpus", "16"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const Scenario after = load_scenario_text(printed.out, "after.json");
  CHECK(after.model.seq_len == 4096);
  CHECK(after.training.micro_batch_size == before.training.micro_batch_size);
  CHECK(after.training.global_batch_size == before.training.global_batch_size);
  CHECK(after.training.num_microbatches == before.training.num_microbatches);
  CHECK(after.parallelism.tp == before.parallelism.tp);
  CHECK(after.parallelism.pp == before.parallelism.pp);
  CHECK(after.parallelism.dp_shard == before.parallelism.dp_shard);
}

}  // namespace

TEST_CASE("What is emitted for torchtitan comes back with length and batch", "[exchange]") {
  check_round_trip(R"({"tp": 2, "sequence_parallel": true, "dp_shard": 8, "zero_stage": 3})",
                   R"({"global_batch_size": 96, "micro_batch_size": 3})");
  check_round_trip(R"({"pp": 2, "dp_shard": 8, "zero_stage": 3, "schedule": "1f1b"})",
                   R"({"global_batch_size": 128, "micro_batch_size": 2})");
}

TEST_CASE("Slices of experts come back from torchtitan", "[exchange]") {
  const Scenario before = load_scenario_text(
      R"({"schema_version": 1, "model": "mixtral-8x7b", "system": {"preset": "dgx-h100", "nodes": 1},
      "parallelism": {"tp": 2, "sequence_parallel": true, "ep": 2, "etp": 2, "zero_stage": 1},
      "training": {"global_batch_size": 8}})",
      "before.json");
  const TemporaryFolder folder;
  // Models of today have none; those of 2025 had.
  std::string config = json_of_python(emit_torchtitan(before).text);
  const std::string experts = "\"expert_parallel_degree\"";
  REQUIRE(contains(config, experts));
  CHECK_FALSE(contains(config, "expert_tensor_parallel_degree"));
  config.insert(config.find(experts), "\"expert_tensor_parallel_degree\": 2, ");
  write(folder / "config.json", config);
  const Printed printed = shardsim(
      {"import", "torchtitan", folder / "config.json", "--model", "mixtral-8x7b", "--gpus", "8"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const Scenario after = load_scenario_text(printed.out, "after.json");
  CHECK(after.parallelism.ep == 2);
  CHECK(after.parallelism.etp == 2);
}

TEST_CASE("Tokens of torchtitan are whole sequences of one name", "[exchange]") {
  const Mistake mistakes[] = {
      {{R"("max_context_length": 100, "num_tokens_per_microbatch_per_dp_rank": 250)"},
       "num_tokens_per_microbatch_per_dp_rank is 250, which are not",
       "make it a multiple of 100"},
      {{R"("max_context_length": 100, "num_tokens_per_train_step": 801)"},
       "num_tokens_per_train_step is 801, which are not",
       "make it a multiple of 100"},
      {{R"("max_context_length": 0)"},
       "\"training.max_context_length\" is the number 0",
       "correct"},
      {{R"("seq_len": 100, "max_context_length": 100)"},
       "both training.seq_len and training.max_context_length",
       "leave one of them"},
      {{R"("local_batch_size": 1, "seq_len": 9, "num_tokens_per_microbatch_per_dp_rank": 9)"},
       "both training.local_batch_size and",
       "leave one of them"},
      {{R"("num_tokens_per_train_step": 800)"}, "does not say of how long", "max_context_length"},
      {{R"("max_context_length": 100, "num_tokens_per_microbatch_per_dp_rank": 200,
           "num_tokens_per_train_step": 2400)"},
       "a global batch of 24 sequences is not cut evenly by 8 data-parallel ranks of 2",
       "--gpus"},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed =
        import_titan("{\"training\": {" + mistake.arguments.front() + "}}", {"--gpus", "8"});
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
    CHECK(contains(printed.err, "config.json:"));
  }
}

TEST_CASE("A batch that torchtitan's file does not say needs somebody", "[exchange]") {
  const Printed nothing = import_titan(R"({"training": {"seq_len": 2048}})", {"--gpus", "8"});
  CHECK(nothing.exit_code == 0);
  CHECK(contains(nothing.err, "needs you  training.local_batch_size"));
  CHECK(contains(nothing.out, "\"global_batch_size\": 8"));
  // The batch follows from tokens: two sequences for each of four microbatches and four ranks.
  const std::string piped = R"({"training": {"max_context_length": 2048,
    "num_tokens_per_microbatch_per_dp_rank": 4096, "num_tokens_per_train_step": -1},
    "parallelism": {"pipeline_parallel_degree": 2)";
  const Printed told = import_titan(piped + R"(, "num_pp_microbatches": 4}})", {"--gpus", "8"});
  CHECK(contains(told.out, "\"micro_batch_size\": 2"));
  CHECK(contains(told.out, "\"global_batch_size\": 32"));
  const Printed untold = import_titan(piped + "}}", {"--gpus", "8"});
  CHECK(contains(untold.err, "needs you  parallelism.num_pp_microbatches"));
  CHECK(contains(untold.out, "\"global_batch_size\": 8"));
}

TEST_CASE("An optimizer of torchtitan has its own name, or needs somebody", "[exchange]") {
  const std::string batch = R"("training": {"seq_len": 2048, "local_batch_size": 1})";
  for (const auto& [theirs, ours] :
       {std::pair{"Adam", "adam"}, std::pair{"AdamW", "adamw"}, std::pair{"Muon", "adamw"}}) {
    const Printed printed =
        import_titan("{" + batch + R"(, "optimizer": {"name": ")" + std::string(theirs) + "\"}}",
                     {"--gpus", "8"});
    INFO(theirs << "\n" << printed.out << printed.err);
    CHECK(printed.exit_code == 0);
    CHECK(contains(printed.out, "\"optimizer\": \"" + std::string(ours) + "\""));
    CHECK(contains(printed.err, "AdamW stands in for it") == (std::string(theirs) == "Muon"));
  }
}

}  // namespace shardsim::test
