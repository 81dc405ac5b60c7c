#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

TEST_CASE("a problem tells code, place, pointer, cause and fix") {
  const Problem p = only_problem_of(valid_text_with("\"seq_len\": 9", "\"seq_len\": 2.9"));
  CHECK(p.code == "E0101");
  CHECK(p.file == "test.json");
  CHECK(p.line == 6);
  CHECK(p.column == 83);
  CHECK(p.pointer == "/model/seq_len");
  CHECK(p.message == "\"seq_len\" must be a whole number, not the number 2.9");
}

TEST_CASE("all problems of a text are found in one pass, in the order of the file") {
  std::string text = valid_text();
  text = replaced(text, "\"num_layers\": 2", "\"num_layers\": 0");
  text = replaced(text, "\"nodes\": 2", "\"nodse\": 2");
  text = replaced(text, "\"zero_stage\": 1", "\"cp\": 0, \"zero_stage\": true");
  text = replaced(text, "\"precision\": \"fp64\"",
                  "\"precision\": \"fp64\", \"grad_reduce_dtype\": \"fp8\", \"momentum\": 1");
  const std::vector<Problem> problems = problems_of(text);
  std::vector<std::string> seen;
  seen.reserve(problems.size());
  for (const Problem& problem : problems) {
    seen.push_back(problem.code + " " + problem.pointer);
  }
  CHECK(seen == std::vector<std::string>{"E0102 /model/num_layers", "E0107 /system/nodse",
                                         "E0102 /parallelism/cp", "E0101 /parallelism/zero_stage",
                                         "E0106 /training/grad_reduce_dtype",
                                         "E0102 /training/momentum", "E0103 /system/nodes"});
}

TEST_CASE("one mistake is one problem: nothing is derived from a value that is wrong") {
  CHECK(only_problem_of(valid_text_with("\"nodes\": 2", "\"nodes\": 0")).pointer ==
        "/system/nodes");
  CHECK(only_problem_of(valid_text_with("\"llama\"", "\"lama\"")).label ==
        "did you mean \"llama\"?");
  CHECK(only_problem_of(valid_text(), {"system.device=5"}).pointer == "/system/device");
}

TEST_CASE("a rendered problem shows the line with carets under the value") {
  const Problem p = only_problem_of(valid_text_with("\"zero_stage\": 1", "\"zero_stage\": 7"));
  CHECK(render(p) ==
        "error[E0102]: \"zero_stage\" is 7, out of range\n"
        "   --> test.json:17:34   at /parallelism/zero_stage\n"
        "    |\n"
        " 17 |   \"parallelism\": { \"zero_stage\": 7 },\n"
        "    |                                  ^\n"
        "    = help: the range: at least 0 and at most 3\n");
}

TEST_CASE("carets stand under the value behind wide text, tabs and escapes, and lines are cut") {
  const auto caret_text = [](const Problem& p) {
    // The characters above the carets. Only ASCII is compared, so bytes are columns from the end.
    const std::string tail = p.excerpt.text;
    return std::pair<int, int>(p.excerpt.caret_column, p.excerpt.caret_length);
  };
  const Problem accents =
      only_problem_of(valid_text_with("\"parallelism\": { \"zero_stage\": 1 }",
                                      "\t\"parallelism\": { /* é€😀 */ \"zero_stage\": 7 }"));
  CHECK(accents.column == 45);
  CHECK(caret_text(accents) == std::pair<int, int>(44, 1));
  const Problem far = only_problem_of(valid_text_with(
      "{ \"zero_stage\": 1",
      "{" + std::string(100000, ' ') + "\"zero_stage\": 7" + std::string(100000, ' ')));
  CHECK(far.excerpt.text.size() < 120);
  CHECK(far.excerpt.text.substr(static_cast<std::size_t>(far.excerpt.caret_column), 1) == "7");
}

TEST_CASE("what is printed holds no control characters") {
  const std::string hostile = "\"\\u001b[2J\\u202e\x7f\": 1, \"zero_stage\": 1";
  const Problem p = only_problem_of(valid_text_with("\"zero_stage\": 1", hostile));
  for (const char c : render(p)) {
    CHECK((c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)));
  }
  CHECK(render(p).find("\\x1b[2J\\u202e\\x7f") != std::string::npos);
}

TEST_CASE("problems can be had as JSON") {
  try {
    loaded(valid_text_with("\"zero_stage\": 1", "\"zero\": 1"));
    FAIL("the text is not valid");
  } catch (const ScenarioError& error) {
    const auto list = nlohmann::json::parse(error.to_json())["errors"];
    REQUIRE(list.size() == 1);
    CHECK(list[0]["code"] == "E0107");
    CHECK(list[0]["severity"] == "error");
    CHECK(list[0]["file"] == "test.json");
    CHECK(list[0]["line"] == 17);
    CHECK(list[0]["column"] == 20);
    CHECK(list[0]["pointer"] == "/parallelism/zero");
    CHECK(list[0]["help"].get<std::string>().find("zero_stage") != std::string::npos);
    CHECK(error.exit_code() == ExitCode::bad_usage);
    CHECK(error.code() == "E0107");
  }
}

TEST_CASE("a problem without a line has none in JSON") {
  try {
    loaded(valid_text(), {"parallelism.zero_stage=9"});
    FAIL("the flag is out of range");
  } catch (const ScenarioError& error) {
    const auto list = nlohmann::json::parse(error.to_json())["errors"];
    REQUIRE(list.size() == 1);
    CHECK(list[0]["file"] == "--set parallelism.zero_stage=9");
    CHECK(list[0]["pointer"] == "/parallelism/zero_stage");
    CHECK_FALSE(list[0].contains("line"));
    CHECK_FALSE(list[0].contains("column"));
  }
}

TEST_CASE("errors of a flag name the flag") {
  const Problem p = only_problem_of(valid_text(), {"parallelism.zero_stage=9"});
  CHECK(p.file == "--set parallelism.zero_stage=9");
  CHECK(p.line == 0);
  CHECK(p.pointer == "/parallelism/zero_stage");
  CHECK(render(p).find("--> --set parallelism.zero_stage=9   at /parallelism/zero_stage") !=
        std::string::npos);
}

TEST_CASE("flags that are malformed are refused") {
  for (const char* flag : {"parallelism.zero_stage", "=1", ".a=1", "a.=1", "a..b=1"}) {
    INFO(flag);
    CHECK(only_problem_of(valid_text(), {flag}).code == "E0109");
  }
  CHECK(only_problem_of(valid_text(), {"name.inner=1"}).code == "E0109");
  CHECK(only_problem_of(valid_text(), {"expect=[1,"}).code == "E0002");
  CHECK(only_problem_of(valid_text(), {"nmae=x"}).code == "E0107");
  std::string deep = "a";
  for (int i = 0; i < 100000; ++i) {
    deep += ".a";
  }
  CHECK(only_problem_of(valid_text(), {deep + "=1"}).code == "E0003");
}

TEST_CASE("foreign names are answered with ours and never accepted") {
  const auto hint = [](const std::string& section, const std::string& key) {
    return only_problem_of(valid_text_with("\"" + section + "\": {",
                                           "\"" + section + "\": { \"" + key + "\": 8,"))
        .label;
  };
  CHECK(hint("parallelism", "tensor_model_parallel_size") ==
        "Megatron-LM's name; here it is \"tp\"");
  CHECK(hint("parallelism", "--tensor-model-parallel-size") ==
        "Megatron-LM's name; here it is \"tp\"");
  CHECK(hint("training", "train_batch_size") ==
        "DeepSpeed's name; here it is \"global_batch_size\"");
  CHECK(hint("model", "num_hidden_layers") == "Hugging Face's name; here it is \"num_layers\"");
  CHECK(hint("training", "pipeline_parallel_degree") ==
        "torchtitan's name; here it is \"parallelism.pp\"");
  CHECK(hint("training", "zero_stage") == "belongs into \"parallelism\"");
}

TEST_CASE("very many problems end in a count") {
  std::string text = "{";
  for (int i = 0; i < 300; ++i) {
    text += "\"key" + std::to_string(i) + "\": 1, ";
  }
  try {
    loaded(replaced(valid_text(), "{", text));
    FAIL("the text is not valid");
  } catch (const ScenarioError& error) {
    CHECK(error.problems().size() == ProblemList::kMaxProblems);
    CHECK(error.render_all().find("and 250 more problems") != std::string::npos);
  }
}

TEST_CASE("batch and ranks that do not fit name values that do") {
  CHECK(only_problem_of(valid_text_with("\"global_batch_size\": 16", "\"global_batch_size\": 20"))
            .help == "use 16 or 24");
  CHECK(only_problem_of(valid_text_with("\"global_batch_size\": 16", "\"global_batch_size\": 3"))
            .help == "use 8");
  CHECK(only_problem_of(valid_text_with("\"zero_stage\": 1", "\"dp_shard\": 4")).help ==
        "use \"dp_shard\": 8, or \"auto\"");
  CHECK(
      only_problem_of(valid_text_with("\"micro_batch_size\": 1", "\"num_microbatches\": 3")).help ==
      "leave num_microbatches out, or use global_batch_size 24");
  CHECK(
      only_problem_of(valid_text_with("\"num_query_groups\": 2", "\"num_query_groups\": 3")).help ==
      "try 1, 2, 4");
}

TEST_CASE("prices by shape need the constants of some GPU's kernels") {
  const std::string shapes = "system.kernel_model=shapes";
  const Problem p = only_problem_of(valid_text(), {shapes});
  CHECK(p.code == "E0214");
  CHECK(p.pointer == "/system/kernel_model");
  CHECK(loaded(valid_text(), {shapes, "system.device.kernels=h100-sxm"}).system.kernel_model ==
        "shapes");
  CHECK(only_problem_of(valid_text(), {"system.device.kernels=h100"}).pointer ==
        "/system/device/kernels");
}

TEST_CASE("software chooses among kernels, and a roofline has none") {
  const std::string software = "system.software=megatron-lm-2021";
  const Problem p = only_problem_of(valid_text(), {software});
  CHECK(p.code == "E0221");
  CHECK(p.pointer == "/system/software");
  const std::string kernels = "system.device.kernels=a100-sxm";
  CHECK(only_problem_of(valid_text(), {software, kernels, "system.kernel_model=roofline"}).code ==
        "E0221");
  CHECK(loaded(valid_text(), {software, kernels}).system.host_us_per_kernel == 46.0);
  CHECK(loaded(valid_text(), {software, kernels, "system.host_us_per_kernel=5"})
            .system.host_us_per_kernel == 5.0);
  CHECK(loaded(valid_text(), {kernels, "system.software=none"}).system.host_us_per_kernel == 0.0);
  CHECK(only_problem_of(valid_text(), {"system.software=megatron"}).pointer == "/system/software");
}

TEST_CASE("a GPU whose kernels are known is priced by them, and by NCCL's model if that knows it") {
  const std::string kernels = "system.device.kernels=a100-sxm";
  CHECK(loaded(valid_text()).system.kernel_model == "roofline");
  CHECK(loaded(valid_text()).system.network.model == "alpha_beta");
  CHECK(loaded(valid_text(), {kernels}).system.kernel_model == "shapes");
  CHECK(loaded(valid_text(), {kernels, "system.device.name=A100"}).system.network.model == "nccl");
  CHECK(loaded(valid_text(), {kernels, "system.device.name=unheard of"}).system.network.model ==
        "alpha_beta");
  const std::string roofline = "system.kernel_model=roofline";
  CHECK(loaded(valid_text(), {kernels, "system.device.name=A100", roofline}).system.network.model ==
        "alpha_beta");
}

TEST_CASE("of degrees that do not divide the ranks, the one that does not fit is blamed") {
  // valid_text() has 8 ranks.
  const auto problem = [](const std::vector<std::string>& flags) {
    const Problem p = only_problem_of(valid_text(), flags);
    CHECK(p.code == "E0203");
    return p;
  };
  const Problem tp = problem({"parallelism.tp=3"});
  CHECK(tp.pointer == "/parallelism/tp");
  CHECK(tp.message == "tp (3) does not divide the 8 ranks");
  CHECK(tp.help == "try 1, 2, 4, 8");
  CHECK(problem({"parallelism.tp=3", "parallelism.dp_shard=8"}).pointer == "/parallelism/tp");
  const Problem pp = problem({"parallelism.tp=2", "parallelism.pp=8"});
  CHECK(pp.pointer == "/parallelism/pp");
  CHECK(pp.message == "pp (8) does not divide the 4 ranks that tp 2 leaves of 8");
  CHECK(pp.help == "try 1, 2, 4");
  const Problem replicas = problem({"parallelism.dp_replicate=3", "parallelism.pp=2"});
  CHECK(replicas.pointer == "/parallelism/dp_replicate");
  CHECK(replicas.message == "dp_replicate (3) does not divide the 4 ranks that pp 2 leaves of 8");
  const Problem shards = problem({"parallelism.dp_shard=3", "parallelism.pp=2"});
  CHECK(shards.pointer == "/parallelism/dp_shard");
  CHECK(shards.help == "use \"dp_shard\": 4, or \"auto\"");
  CHECK(problem({"parallelism.tp=1048576", "parallelism.dp_shard=1048576"}).pointer ==
        "/parallelism/tp");
}

TEST_CASE("stages that do not fit name layers that do") {
  const auto problem = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"model.num_layers=6", "parallelism.pp=4"});
    return only_problem_of(valid_text(), flags);
  };
  const std::string such = "write 4 numbers that add up to num_layers (6), such as [2, 2, 1, 1]";
  const Problem few = problem({"parallelism.stage_layers=[3,3]"});
  CHECK(few.message == "stage_layers has 2 numbers, but pp 4 are 4 stages");
  CHECK(few.help == such);
  const Problem sum = problem({"parallelism.stage_layers=[2,2,2,2]"});
  CHECK(sum.message == "the stages have 8 layers in all, but num_layers is 6");
  CHECK(sum.help == such);
  CHECK(problem({"parallelism.stage_layers=[2,0,2,2]"}).message == "stage 1 has no layer to run");
  CHECK(problem({"parallelism.stage_layers=[2,2,2,17000]"}).pointer ==
        "/parallelism/stage_layers/3");
  CHECK(problem({"parallelism.stage_layers=2"}).message ==
        "\"stage_layers\" must be a list of whole numbers, not the number 2");
  CHECK(problem({"parallelism.stage_layers=1,2"}).help == "write [1, 2], or \"auto\"");
  const Problem one = only_problem_of(valid_text(), {"parallelism.stage_layers=[1,1]"});
  CHECK(one.message == "stage_layers has 2 numbers, but pp 1 is 1 stage");
  CHECK(one.help == "write 1 number, that of num_layers (2), such as [2]");
  const Problem many = problem({"parallelism.vpp=2"});
  CHECK(many.pointer == "/parallelism/vpp");
  CHECK(many.message == "pp 4 x vpp 2 are 8 stages, but the model has 6 layers to give them");
  CHECK(many.help.find("use at most 6 stages, or count the embedding and the head") == 0);
  CHECK(problem({"parallelism.vpp=4"}).help == "use at most 6 stages");
  CHECK(only_problem_of(valid_text(), {"parallelism.pp=4"}).pointer == "/parallelism/pp");
  const Problem two_ways = problem({"parallelism.stage_layers=[2,2,2,0]",
                                    "parallelism.account_for_embedding_in_pipeline_split=true"});
  CHECK(two_ways.code == "E0206");
  CHECK(two_ways.message ==
        "stage_layers is not the even split that account_for_embedding_in_pipeline_split asks for");
}

TEST_CASE("settings that contradict each other are refused") {
  const auto code = [](const std::vector<std::string>& flags) {
    return only_problem_of(valid_text(), flags).code;
  };
  CHECK(code({"parallelism.sync_every_microbatch=true"}) == "E0206");
  CHECK(code({"parallelism.bucket_bytes=10", "parallelism.first_bucket_bytes=11"}) == "E0208");
  CHECK(code({"training.precision=bf16"}) == "E0207");
  CHECK(code({"model.family=gpt2"}) == "E0201");
  CHECK(code({"model.num_attention_heads=8", "model.num_query_groups=8"}) == "E0201");
  CHECK(code({"output.trace_ranks=[8]"}) == "E0209");
}
