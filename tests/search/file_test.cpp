#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/import.hpp"
#include "scenarios/load.hpp"
#include "sim/search/search_request.hpp"

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {

namespace {

// All that a search takes out, with comments and commas where they could be in the way.
const std::string kOfOneRun = R"({
  "schema_version": 1,
  "faults": {"stragglers": [{"rank": 0, "slowdown": 2}]}, // first, of this
  "model": {"preset": "gpt2"},
  "system": {"preset": "dgx-a100", "nodes": 4},
  "parallelism": {"tp": 2 /* , */, "bucket_bytes": 1000, "dp_shard": 4, "pp": 2,
                  "gradient_compression": "int8", "offload_optimizer": true,
                  "schedule": "1f1b"},
  "training": {"num_microbatches": 8, "global_batch_size": 64}
})";

SearchRequest request_for(const std::string& file) {
  SearchRequest request;
  request.model = file;
  request.gpu = "h100";
  request.num_gpus = 8;
  return request;
}

template <class Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code() + " " + error.what() + "; " + error.fix();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the file of a run can be planned: its microbatches are each layout's own") {
  const Printed planned = shardsim({"plan",
                                    kPlan,
                                    "--gpus",
                                    "8",
                                    "--gpu",
                                    "h100",
                                    "-q",
                                    "--time-limit",
                                    "0",
                                    "--fix",
                                    "tp=8,4",
                                    "--fix",
                                    "pp=1",
                                    "--fix",
                                    "cp=1",
                                    "--fix",
                                    "recompute=full",
                                    "--fix",
                                    "micro_batch_size=1,2",
                                    "--json"});
  INFO(planned.err);
  CHECK(planned.exit_code == 0);
  CHECK(contains(planned.out, "\"refused\": 0"));
}

TEST_CASE("what a search does not decide is kept from the file, and the rest is named") {
  const TemporaryFolder folder;
  write(folder / "run.json", kOfOneRun);
  const SearchBase base = prepare_search(request_for(folder / "run.json"));
  const Scenario best = scenario_of(base, {.tp = 4, .dp_shard = 2, .sequence_parallel = true});
  CHECK(best.parallelism.bucket_bytes == 1000);
  CHECK(best.parallelism.offload_optimizer);
  CHECK(!best.parallelism.compresses());
  CHECK(best.parallelism.pp == 1);
  CHECK(best.system.ranks == 8);
  CHECK(best.training.global_batch_size == 64);
  CHECK(best.training.num_microbatches == 32);
  CHECK(best.faults.stragglers.empty());
  REQUIRE(base.ignored.size() == 4);
  CHECK(contains(base.ignored[0],
                 "parallelism.tp, parallelism.dp_shard, parallelism.pp, parallelism.schedule, "
                 "training.num_microbatches: each layout has its own"));
  CHECK(contains(base.ignored[1], "parallelism.gradient_compression"));
  CHECK(contains(base.ignored[2], "system: the machine is that of --gpu"));
  CHECK(contains(base.ignored[3], "faults"));
}

TEST_CASE("what is wrong in a file is shown at its line") {
  const TemporaryFolder folder;
  std::string text = kOfOneRun;
  text.replace(text.find("\"global_batch_size\""), 19, "\"global_batchsize\"");
  write(folder / "run.json", text);
  const Printed printed =
      shardsim({"plan", folder / "run.json", "--gpus", "8", "--gpu", "h100", "-q"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "run.json:9:39"));
}

TEST_CASE("a global batch is a whole number to its end") {
  for (const char* words : {"16x", "1e3", "auto", "", " 8", "8 "}) {
    INFO(words);
    SearchRequest request = request_for("gpt2");
    request.overrides = {std::string("training.global_batch_size=") + words};
    const std::string refusal = refusal_of([&] { (void)prepare_search(request); });
    CHECK(contains(refusal, "E1331 a global batch of " + std::string(words) + " is not a whole"));
  }
  SearchRequest request = request_for("gpt2");
  request.overrides = {"training.global_batch_size=48"};
  CHECK(prepare_search(request).scenario.training.global_batch_size == 48);
}

TEST_CASE("each value that is fixed must be one that the axis can have") {
  const std::pair<const char*, const char*> mistakes[] = {
      {"recompute=none,ful", "E1325 recompute cannot be \"ful\"; did you mean \"full\"?"},
      {"schedule=1F1B", "did you mean \"1f1b\"?"},
      {"tp=4,eight", "E1325 tp cannot be \"eight\"; write whole numbers"},
      {"tp=", "tp cannot be \"\""},
      {"pp=0", "pp cannot be \"0\""},
      {"zero_stage=4", "one of \"0\", \"1\", \"2\" or \"3\""},
      {"sequence_parallel=yes", "\"true\" or \"false\""}};
  for (const auto& [words, said] : mistakes) {
    FixedAxes fixed;
    const std::string text = words;
    INFO(text);
    CHECK(contains(refusal_of([&] { fix_axis(text, fixed); }), said));
  }
  FixedAxes fixed;
  fix_axis("recompute=none,full", fixed);
  fix_axis("tp=08", fixed);
  CHECK(fixed == FixedAxes{{"recompute", {"none", "full"}}, {"tp", {"8"}}});
}

TEST_CASE("without a price, cost is said to rank as time") {
  SearchRequest request = request_for("gpt2");
  request.objective = Objective::cost;
  CHECK(contains(prepare_search(request).assumptions.back(), "cost ranks like time"));
  request.usd_per_gpu_hour = 2;
  CHECK_FALSE(contains(prepare_search(request).assumptions.back(), "cost ranks like time"));
}

namespace {

// Qwen3's blocks, small. `more`: further keys.
std::string config_json(const std::string& more) {
  return R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024,
    "head_dim": 128, "intermediate_size": 3072, "max_position_embeddings": 40960,
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "bos_token_id": 151643, "vocab_size": 151936)" +
         more + "}";
}

}  // namespace

TEST_CASE("a config.json of Hugging Face can be planned, and what was assumed is said") {
  const TemporaryFolder folder;
  write(folder / "config.json", config_json(""));
  SearchRequest request = request_for(folder / "config.json");
  const SearchBase base = prepare_search(request);
  CHECK(num_parameters(base.scenario.model) == 596'049'920);  // Qwen3-0.6B.
  CHECK(base.scenario.model.seq_len == 8192);
  CHECK(base.scenario.training.precision == Precision::bf16);
  REQUIRE(!base.assumptions.empty());
  CHECK(contains(base.assumptions.front(), "model.seq_len = 8192 assumed"));
  CHECK(contains(base.ignored.front(), "the file's"));
  CHECK(base.warnings.empty());
  request.seq_len = 2048;
  const SearchBase given = prepare_search(request);
  CHECK(given.scenario.model.seq_len == 2048);
  for (const std::string& words : given.assumptions) CHECK_FALSE(contains(words, "model.seq_len"));
}

TEST_CASE("a config.json is refused as import refuses it, and approximated with warnings") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, config_json(R"(, "hc_mult": 4)"));
  SearchRequest request = request_for(file);
  CHECK(contains(refusal_of([&] { (void)prepare_search(request); }), "E1355"));
  CHECK(contains(refusal_of([&] { (void)prepare_search(request); }), "hyper-connections"));
  request.approximate = true;
  const SearchBase base = prepare_search(request);
  REQUIRE(base.warnings.size() == 1);
  CHECK(contains(base.warnings.front(), "hyper-connections"));
  request.approximate = false;
  write(file, config_json(R"(, "mixture_of_depths": 2)"));
  CHECK(contains(refusal_of([&] { (void)prepare_search(request); }), "E1347"));
  write(file, R"({"model_type": "mamba"})");
  CHECK(contains(refusal_of([&] { (void)prepare_search(request); }), "E1358"));
}

TEST_CASE("a published config.json is planned where it is imported, and else refused alike") {
  std::size_t planned = 0;
  const auto is_config = [](const std::string& path) {
    return path.ends_with(".config.json") || path.find("/configs/") != std::string::npos;
  };
  for (const auto& entry : std::filesystem::recursive_directory_iterator("tests/exchange/data")) {
    const std::string file = entry.path().string();
    if (!entry.is_regular_file() || !is_config(file)) continue;
    INFO(file);
    Import import;
    const std::string imported = refusal_of([&] { import_hf_model(file, false, import); });
    CHECK(refusal_of([&] { (void)prepare_search(request_for(file)); }) == imported);
    planned += imported == "accepted" ? 1 : 0;
  }
  CHECK(planned >= 50);
}

TEST_CASE("what Python writes for a number without end is refused in a scenario's file") {
  const TemporaryFolder folder;
  const std::string file = folder / "run.json";
  write(file, R"({"schema_version": 1, "model": {"preset": "gpt2", "seq_len": Infinity}})");
  CHECK(contains(refusal_of([&] { (void)prepare_search(request_for(file)); }), "E0002"));
}

TEST_CASE("plan prints a config.json's warnings, and run says where such a file is taken") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, config_json(R"(, "attention_dropout": 0.1)"));
  const Printed planned = shardsim({"plan",
                                    file,
                                    "--gpus",
                                    "8",
                                    "--gpu",
                                    "h100",
                                    "-q",
                                    "--time-limit",
                                    "0",
                                    "--fix",
                                    "tp=1",
                                    "--fix",
                                    "pp=1",
                                    "--fix",
                                    "cp=1",
                                    "--fix",
                                    "recompute=full",
                                    "--fix",
                                    "zero_stage=3",
                                    "--fix",
                                    "micro_batch_size=1"});
  INFO(planned.err << planned.out);
  CHECK(planned.exit_code == 0);
  CHECK(contains(planned.err, "warning: attention_dropout 0.1"));
  CHECK(contains(planned.out, "ignored: the file's"));
  CHECK(contains(planned.out, "bos_token_id"));
  const Printed run = shardsim({"run", file});
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "E0114"));
  CHECK(contains(run.err, "shardsim import hf"));
  // Python's limit that there is not is no error of syntax there.
  write(file, config_json(R"(, "time_step_limit": [0.0, Infinity])"));
  CHECK(contains(shardsim({"run", file}).err, "E0114"));
}

}  // namespace shardsim::test
