#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Models as Hugging Face publishes them: the scenario has the published number of parameters, or
// says what it lacks.
namespace shardsim::test {

namespace {

struct PublishedModel {
  const char* file;
  std::int64_t parameters;
};

Mistake hf_mistake(const std::string& file, const char* said, const char* way_out) {
  return {{"import", "hf", file}, said, way_out};
}

void require_refused(const Mistake& mistake) {
  const Printed printed = shardsim(mistake.arguments);
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, mistake.said));
  CHECK(contains(printed.err, mistake.way_out));
}

}  // namespace

TEST_CASE("An imported model has the published number of parameters", "[exchange]") {
  const PublishedModel model =
      GENERATE(PublishedModel{"llama3-8b", 8030261248}, PublishedModel{"llama3.3-70b", 70553706496},
               PublishedModel{"mixtral-8x7b", 46702792704}, PublishedModel{"gpt2", 124439808});
  const Imported imported = import_file({"hf", kData + model.file + ".config.json"});
  CHECK(num_parameters(imported.scenario.model) == model.parameters);
  CHECK(imported.scenario.warnings.empty());
}

TEST_CASE("Parameters without a place in a scenario are counted", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "qwen2.5-7b.config.json"});
  CHECK(contains(imported.printed.err, "7615616512"));  // As published.
  CHECK(contains(imported.printed.err, "129024"));
  CHECK(num_parameters(imported.scenario.model) == 7615616512 - 129024);
}

TEST_CASE("A model's fields come under their own names", "[exchange]") {
  const Imported imported =
      import_file({"hf", kData + "mixtral-8x7b.config.json", "--gpus", "16", "--gpu", "A100"});
  const ModelSpec& model = imported.scenario.model;
  CHECK(model.num_experts == 8);
  CHECK(model.num_experts_per_token == 2);
  CHECK(model.moe_ffn_hidden_size == 14336);
  CHECK(model.moe_aux_loss_coeff == 0.00125);
  CHECK(model.rope_theta == 1e6);
  CHECK(imported.scenario.system.preset == "dgx-a100");
  CHECK(imported.scenario.system.ranks == 16);
  CHECK(imported.scenario.training.precision == DType::bf16);
  CHECK(contains(imported.printed.err, "needs you  the sequence length of training"));
  CHECK(contains(imported.printed.err, "ignored    bos_token_id"));
}

TEST_CASE("The trained sequence is not the longest that is allowed", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "llama3.3-70b.config.json"});
  CHECK(imported.scenario.model.seq_len == 8192);  // original_max_position_embeddings
}

TEST_CASE("What a scenario cannot say is refused, or written as near as can be", "[exchange]") {
  const std::string file = GENERATE("qwen3-30b-a3b", "kimi-k2", "gpt-oss-20b");
  const std::string said = file == "kimi-k2"         ? "multi-head latent attention"
                           : file == "qwen3-30b-a3b" ? "32 heads of 128 are 4096 wide"
                                                     : "layers of sliding_attention";
  const std::string path = kData + file + ".config.json";
  require_refused(hf_mistake(path, said.c_str(), "--approximate"));
  const Imported imported = import_file({"hf", path, "--approximate"});
  CHECK(contains(imported.printed.err, "needs you  not supported"));
  CHECK(contains(imported.printed.err, said.substr(0, 20)));
}

TEST_CASE("The count of a model that is only approximated is the published one", "[exchange]") {
  const PublishedModel model = GENERATE(PublishedModel{"qwen3-30b-a3b", 30532122624},
                                        PublishedModel{"gpt-oss-20b", 20914757184});
  const Imported imported =
      import_file({"hf", kData + model.file + ".config.json", "--approximate"});
  CHECK(contains(imported.printed.err, std::to_string(model.parameters)));
  CHECK(num_parameters(imported.scenario.model) != model.parameters);
}

TEST_CASE("A config.json that cannot be read says where and why", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"model_type": "mamba", "hidden_size": 64})");
  require_refused(
      hf_mistake(file, "lacks these keys of a llama model: num_hidden_layers, intermediate_size",
                 "\"llama\""));
  require_refused(hf_mistake(file, "config.json:1:16", "known are"));
  write(file, R"({"model_type": "llama", "hidden_size": 64, "vocab_size": 8})");
  require_refused(hf_mistake(file, "num_hidden_layers, intermediate_size, num_attention_heads",
                             "with all its keys"));
  write(file, R"({"model_type": "llama", "hidden_size": "64"})");
  require_refused(hf_mistake(file, "\"hidden_size\" is", "correct it"));
  write(file, R"({"model_type": "qwen2_vl", "text_config": {}})");
  require_refused(hf_mistake(file, "under text_config", "language model alone"));
  require_refused(hf_mistake(folder / "nothing.json", "nothing.json", ""));
}

TEST_CASE("Machines that do not exist are refused", "[exchange]") {
  const std::string file = kData + "llama3-8b.config.json";
  require_refused({{"import", "hf", file, "--gpu", "h1000"}, "\"h1000\"", "\"h100\""});
  require_refused({{"import", "hf", file, "--gpus", "12"}, "12 GPUs do not fill", "8 or 16"});
  require_refused({{"import", "keras", file}, "\"keras\"", "\"hf\""});
}

}  // namespace shardsim::test
