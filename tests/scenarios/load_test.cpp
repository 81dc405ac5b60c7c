#include <filesystem>
#include <set>

#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

// Whether a value is left to be found out. How ranks are executed is: it changes no result.
bool has_open_value(std::string resolved) {
  const std::string engine = "\"engine\": \"auto\"";
  const std::size_t at = resolved.find(engine);
  if (at != std::string::npos) resolved.erase(at, engine.size());
  return resolved.find("\"auto\"") != std::string::npos;
}

}  // namespace

TEST_CASE("a scenario without presets becomes typed values") {
  const Scenario s = loaded(valid_text());
  CHECK(s.name == "a valid scenario");
  CHECK(s.model.family == ModelFamily::llama);
  CHECK(s.model.num_query_groups == 2);
  CHECK(s.system.ranks == 8);
  CHECK(s.system.inter_node.bandwidth_gb_per_s == 10);
  CHECK(s.system.device.memory_bytes == std::int64_t{1} << 30);
  CHECK(s.system.device.peak_tflops.of(DType::fp64) == 10);
  CHECK(s.parallelism.zero_stage == 1);
  CHECK(s.training.precision == Precision::fp64);
  CHECK(s.warnings.empty());
}

TEST_CASE("values that are not written are derived") {
  const Scenario s = loaded(valid_text());
  CHECK(s.parallelism.dp_shard == 8);
  CHECK(s.training.num_microbatches == 2);
  CHECK(s.training.grad_reduce_dtype == DType::fp64);
  CHECK(s.training.weight_decay == 0.01);
  CHECK(s.model.max_position_embeddings == 9);
  CHECK_FALSE(s.model.tied_embeddings);
  CHECK(s.parallelism.first_bucket_bytes == 1048576);
  CHECK(s.system.name == "inline system");
}

TEST_CASE("derived values follow what they depend on") {
  CHECK(loaded(valid_text(), {"parallelism.bucket_bytes=4096"}).parallelism.first_bucket_bytes ==
        4096);
  CHECK(loaded(valid_text(), {"training.optimizer=adam"}).training.weight_decay == 0);
  for (const auto& [precision, state] : {std::pair("fp64", DType::fp64), {"bf16", DType::fp32}}) {
    const std::string of = std::string("training.precision=") + precision;
    const std::string peak = std::string("system.device.peak_tflops.") + precision + "=9";
    CHECK(loaded(valid_text(), {of, peak}).training.optimizer_state_dtype == state);
    CHECK(loaded(valid_text(), {of, peak, "training.optimizer_state_dtype=auto"})
              .training.optimizer_state_dtype == state);
  }
  CHECK(loaded(valid_text(), {"parallelism.dp_replicate=2"}).parallelism.dp_shard == 4);
  CHECK(loaded(valid_text(), {"system.nodes=4"}).parallelism.dp_shard == 16);
  for (const int stage : {0, 1, 2, 3}) {
    const std::string flag = "parallelism.zero_stage=" + std::to_string(stage);
    CHECK(loaded(valid_text(), {flag}).parallelism.sync_every_microbatch == (stage >= 2));
  }
  const Scenario gpt = loaded(valid_text_with(
      "\"llama\", \"num_layers\": 2, \"hidden_size\": 24, \"ffn_hidden_size\": 40,\n    "
      "\"num_attention_heads\": 4, \"num_query_groups\": 2",
      "\"gpt2\", \"num_layers\": 2, \"hidden_size\": 24, \"num_attention_heads\": 3"));
  CHECK(gpt.model.ffn_hidden_size == 96);
  CHECK(gpt.model.num_query_groups == 3);
  CHECK(gpt.model.tied_embeddings);
}

TEST_CASE("an mlp needs neither heads nor sequences") {
  const Scenario s = loaded(valid_text_with(
      "\"llama\", \"num_layers\": 2, \"hidden_size\": 24, \"ffn_hidden_size\": 40,\n    "
      "\"num_attention_heads\": 4, \"num_query_groups\": 2, \"vocab_size\": 53, \"seq_len\": 9",
      "\"mlp\", \"num_layers\": 2, \"hidden_size\": 24, \"vocab_size\": 5"));
  CHECK(s.model.seq_len == 1);
  CHECK(s.model.num_attention_heads == 0);
  CHECK(s.model.ffn_hidden_size == 96);
}

TEST_CASE("a system may give ranks instead of nodes") {
  const Scenario s =
      loaded(valid_text_with("\"nodes\": 2", "\"ranks\": 12"), {"training.global_batch_size=12"});
  CHECK(s.system.nodes == 3);
  CHECK(s.system.ranks == 12);
}

TEST_CASE("a string is short for a preset") {
  const Scenario s = loaded(
      R"({"schema_version": 1, "model": "gpt2", "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8}})");
  CHECK(s.model.preset == "gpt2");
  CHECK(s.model.hidden_size == 768);
  CHECK(s.system.ranks == 8);
  CHECK(s.system.name == "NVIDIA DGX H100");
}

TEST_CASE("the file wins over a preset, and a flag over the file") {
  const std::string text =
      R"({"schema_version": 1, "model": {"preset": "gpt2", "num_layers": 3},
          "system": {"preset": "dgx-a100", "nodes": 1, "intra_node": {"latency_us": 7}},
          "training": {"global_batch_size": 8}})";
  const Scenario file = loaded(text);
  CHECK(file.model.num_layers == 3);
  CHECK(file.model.hidden_size == 768);
  CHECK(file.system.intra_node.latency_us == 7);
  CHECK(file.system.intra_node.bandwidth_gb_per_s == 300);
  const Scenario flag = loaded(text, {"model.num_layers=5", "system.intra_node.latency_us=9"});
  CHECK(flag.model.num_layers == 5);
  CHECK(flag.system.intra_node.latency_us == 9);
}

TEST_CASE("each number of model and system tells where it comes from") {
  const Scenario s = loaded(
      R"({"schema_version": 1, "model": {"preset": "gpt2", "num_layers": 3},
          "system": {"preset": "dgx-a100", "nodes": 1, "intra_node": {"latency_us": 7},
                     "device": {"matmul_efficiency": {"value": 0.5, "source": "a guess"}}},
          "training": {"global_batch_size": 8}})",
      {"system.inter_node.latency_us=4"});
  const auto source_of = [&s](const std::string& field) {
    for (const NumberSource& source : s.sources) {
      if (source.field == field) {
        return source.source;
      }
    }
    return std::string("none");
  };
  CHECK(source_of("model.num_layers") == "given in the scenario");
  CHECK(source_of("model.hidden_size").find("openai-community/gpt2") != std::string::npos);
  CHECK(source_of("system.intra_node.latency_us") == "given in the scenario");
  CHECK(source_of("system.inter_node.latency_us") == "given by --set");
  CHECK(source_of("system.device.matmul_efficiency") == "a guess");
  CHECK(source_of("system.device.peak_tflops.bf16").find("A100 datasheet") != std::string::npos);
  CHECK(s.system.device.matmul_efficiency == 0.5);
}

TEST_CASE("a flag takes JSON or a bare word, changes presets and creates sections") {
  const Scenario s = loaded(
      valid_text(), {"training.precision=fp32", "system.device.peak_tflops.fp32=20",
                     "output.trace_ranks=[3, 0, 3]", "output.trace=t.pftrace", "name=no quotes",
                     "expect=[{\"metric\": \"ranks\", \"op\": \"==\", \"value\": 8}]"});
  CHECK(s.training.precision == Precision::fp32);
  CHECK(s.output.trace_ranks == std::vector<std::int64_t>{0, 3});
  CHECK(s.name == "no quotes");
  REQUIRE(s.expect.size() == 1);
  CHECK(s.expect[0].op == CompareOp::equal);
  const Scenario other = loaded(
      R"({"schema_version": 1, "model": "gpt2", "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8}})",
      {"model.preset=gpt2-xl", "model.seq_len=512", "system.preset=dgx-b200"});
  CHECK(other.model.hidden_size == 1600);
  CHECK(other.model.seq_len == 512);
  CHECK(other.system.device.peak_tflops.bf16 == 2250);
}

TEST_CASE("the word auto asks for the derived value") {
  const Scenario s = loaded(valid_text_with("\"zero_stage\": 1", "\"dp_shard\": \"auto\""),
                            {"training.grad_reduce_dtype=auto", "output.trace_ranks=auto"});
  CHECK(s.parallelism.dp_shard == 8);
  CHECK(s.training.grad_reduce_dtype == DType::fp64);
  CHECK(s.output.trace_ranks == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("without a list the trace shows the first eight ranks, or all if there are fewer") {
  CHECK(loaded(valid_text()).output.trace_ranks.size() == 8);
  CHECK(loaded(valid_text(), {"system.nodes=4"}).output.trace_ranks.back() == 7);
  const Scenario small = loaded(valid_text(), {"system.gpus_per_node=1"});
  CHECK(small.output.trace_ranks == std::vector<std::int64_t>{0, 1});
  CHECK_FALSE(has_open_value(small.resolved_json));
}

TEST_CASE("layers are divided over stages, or as the list says, in its order") {
  using Layers = std::vector<std::int64_t>;
  const auto layers = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"model.num_layers=6", "parallelism.pp=4"});
    return loaded(valid_text(), flags).parallelism.stage_layers;
  };
  const std::string embedding = "parallelism.account_for_embedding_in_pipeline_split=true";
  const std::string loss = "parallelism.account_for_loss_in_pipeline_split=true";
  CHECK(loaded(valid_text()).parallelism.stage_layers == Layers{2});
  CHECK(layers({}) == Layers{2, 2, 1, 1});
  CHECK(layers({"parallelism.stage_layers=auto"}) == Layers{2, 2, 1, 1});
  CHECK(layers({embedding}) == Layers{1, 2, 2, 1});
  CHECK(layers({loss}) == Layers{2, 2, 2, 0});
  CHECK(layers({embedding, loss}) == Layers{1, 2, 2, 1});
  CHECK(layers({"parallelism.stage_layers=[3, 1, 2, 0]"}) == Layers{3, 1, 2, 0});
  CHECK(layers({"parallelism.vpp=2", embedding, loss}) == Layers{0, 1, 1, 1, 1, 1, 1, 0});
  // Given both ways, they must agree.
  CHECK(layers({embedding, "parallelism.stage_layers=[1, 2, 2, 1]"}) == Layers{1, 2, 2, 1});
}

TEST_CASE("comments are allowed and numbers may be written as integral floats") {
  const Scenario s = loaded(valid_text_with("\"global_batch_size\": 16",
                                            "// one\n /* two */ \"global_batch_size\": 1.6e1"));
  CHECK(s.training.global_batch_size == 16);
}

TEST_CASE("a llama beyond its positions is a warning, costs being right") {
  const Scenario s = loaded(
      R"({"schema_version": 1, "model": {"preset": "llama2-7b", "seq_len": 8192},
          "system": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 8}})");
  REQUIRE(s.warnings.size() == 1);
  CHECK(s.warnings[0].find("4096") != std::string::npos);
}

TEST_CASE("the resolved scenario is complete, loads again and is then the same text") {
  for (const char* path :
       {"scenarios/quickstart.json", "scenarios/verify-mlp-ddp.json",
        "scenarios/verify-llama-hsdp.json", "scenarios/verify-gpt-uneven-stages.json",
        "scenarios/verify-llama-pp2-looped-bfs.json"}) {
    const Scenario first =
        load_scenario(path, {"output.trace=a.pftrace", "output.trace_ranks=[1]"});
    const Scenario second = loaded(first.resolved_json);
    CHECK(second.resolved_json == first.resolved_json);
    CHECK(first.resolved_json.find("\"num_microbatches\"") != std::string::npos);
    CHECK_FALSE(has_open_value(first.resolved_json));
  }
}

namespace {

// Names without path and ending, in order.
std::set<std::string> shipped() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && name != "scenario.schema.json") {
      names.insert(entry.path().stem().string());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("every shipped scenario loads, with real tensors where they fit and without any") {
  REQUIRE(shipped().size() >= 13);
  for (const std::string& name : shipped()) {
    const std::string path = "scenarios/" + name + ".json";
    INFO(path);
    CHECK(load_scenario(path).warnings.empty());
    CHECK(load_scenario(path, {"execution.tensors=meta"}).execution.tensors == TensorMode::meta);
    if (name.rfind("verify-", 0) == 0) {
      CHECK(load_scenario(path, {"execution.tensors=real"}).execution.tensors == TensorMode::real);
    } else {
      CHECK_THROWS_AS(load_scenario(path, {"execution.tensors=real"}), ScenarioError);
    }
  }
}

TEST_CASE("every shipped scenario loads") {
  REQUIRE(shipped().size() >= 13);
  for (const std::string& name : shipped()) {
    const std::string path = "scenarios/" + name + ".json";
    INFO(path);
    Scenario s;
    REQUIRE_NOTHROW(s = load_scenario(path));
    if (path.find("verify") != std::string::npos) {
      CHECK(s.system.ranks <= 32);
      CHECK(s.execution.tensors == TensorMode::real);
      // But for those that are about fp16, and wait until the loss scale fits.
      const bool is_fp16 = path.find("fp16") != std::string::npos;
      CHECK(s.execution.steps == (is_fp16 ? 10 : 5));
      const bool is_fp8 = path.find("-fp8-") != std::string::npos;
      const Precision wide = is_fp8 ? Precision::fp8 : Precision::fp64;
      CHECK(s.training.precision == (is_fp16 ? Precision::fp16 : wide));
    }
  }
}
