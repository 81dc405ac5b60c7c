#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// A config.json of each model that the table of models lists: imported with the count of the table,
// or refused by the name of what it needs.
namespace shardsim::test {

namespace {

constexpr double kExact = 0.0;
constexpr double kOnePercent = 0.01;  // Sizes that no published file confirms.

struct ListedModel {
  const char* file;
  std::int64_t parameters;  // With biases of the choice, without multi-token prediction.
  double within = kExact;
  const char* refused = "";  // In its refusal; a model without these words is imported.
};

// Refused for good: sparse indexers and lightning attention.
constexpr const char* kIndexer = "a sparse indexer";
constexpr const char* kLightning = "lightning attention";

const ListedModel kListedModels[] = {
    {"configs/qwen3-0.6b.json", 596049920},
    {"configs/qwen3-1.7b.json", 1720574976},
    {"configs/qwen3-4b.json", 4022468096},
    {"configs/qwen3-8b.json", 8190735360},
    {"configs/qwen3-14b.json", 14768307200},
    {"configs/qwen3-32b.json", 32762123264},
    {"qwen3-30b-a3b.config.json", 30532122624},
    {"configs/qwen3-235b-a22b.json", 235093634560},
    {"configs/qwen3-coder-480b-a35b.json", 480154875392},
    {"qwen3-next-80b-a3b.config.json", 79674391296},
    {"qwen3.5-27b.config.json", 26895998464},
    {"qwen3.5-35b-a3b.config.json", 34660610688},
    {"qwen3.5-397b-a17b.config.json", 396346350336},
    {"gpt-oss-20b.config.json", 20914757184},
    {"configs/gpt-oss-120b.json", 116829156672},
    {"configs/deepseek-v3.json", 671026419200},
    {"configs/deepseek-v3.2.json", 671877944064, kExact, kIndexer},
    {"configs/deepseek-v2.json", 235741434880},
    {"configs/deepseek-v2-lite.json", 15706484224},
    {"configs/moonlight-16b-a3b.json", 15960110208, kOnePercent},
    {"kimi-k2.config.json", 1026408232448},
    {"glm-5.config.json", 743911218432, kExact, kIndexer},
    {"configs/glm-4.5.json", 352797829024},
    {"configs/glm-4.5-air.json", 106852251264},
    {"configs/minimax-m2.json", 228689764864},
    {"configs/minimax-m1.json", 456089655296, kOnePercent, kLightning},
    {"mimo-v2-flash.config.json", 308778780864},
    {"step-3.7-flash.config.json", 195832712256, kOnePercent},
    {"configs/ling-1t.json", 999705328640, kOnePercent},
    {"configs/hunyuan-a13b.json", 80393183232, kOnePercent},
    {"configs/ernie-4.5-21b-a3b.json", 21825437888},
    {"configs/ernie-4.5-300b-a47b.json", 299484163264, kOnePercent},
    {"configs/llama-4-scout.json", 107769861120},
    {"llama-4-maverick.config.json", 400711848960},
    {"mixtral-8x7b.config.json", 46702792704},
    {"configs/mixtral-8x22b.json", 140620634112},
    {"configs/llama3.2-3b.json", 3212749824},
    {"llama3-8b.config.json", 8030261248},
    {"llama3.3-70b.config.json", 70553706496},
    {"configs/llama3.1-405b.json", 405853388800},
    {"configs/mistral-small-24b.json", 23572403200},
    {"configs/devstral-2-123b.json", 125025988608},
    {"configs/phi-4.json", 14659507200},
    {"configs/seed-oss-36b.json", 36151104512},
    {"configs/olmo-2-32b.json", 32234279936, kOnePercent},
    {"configs/olmo-3-7b.json", 7298011136},
    {"configs/olmo-3.1-32b.json", 32233522176},
    {"configs/exaone-4.0-32b.json", 32003216384},
    {"configs/smollm3-3b.json", 3075098624, kOnePercent},
    {"configs/command-a.json", 111057580032, kOnePercent},
    {"configs/gemma-2-27b.json", 27227128320},
    {"configs/gemma-3-4b.json", 3880263168},
    {"configs/gemma-3-12b.json", 11766034176},
    {"configs/gemma-3-27b.json", 27009346304},
    {"gemma-4-31b.config.json", 30697345340, kOnePercent},
    {"configs/nemotron-4-340b.json", 341029195776, kOnePercent},
    {"nemotron-h-56b.config.json", 56324350464},
    {"nemotron-3-nano.config.json", 31577940288},
    {"nemotron-3-super.config.json", 120668707840},
    {"configs/nemotron-3-ultra.json", 549308993536},
    {"granite-4.0-h-small.config.json", 32207337984},
    {"configs/falcon-h1-34b.json", 33642221312},
};

// Biases of the choice are no parameters of a scenario, but of a checkpoint.
std::int64_t choice_biases(const ModelSpec& model) {
  if (model.moe_router_bias_update_rate == 0.0) return 0;
  std::int64_t biases = 0;
  for (const LayerSpec& layer : model.each_layer()) {
    if (layer.feed_forward == FeedForward::experts) biases += model.num_experts;
  }
  return biases;
}

// Files whose preset has another name: the same sizes, of another release.
const std::map<std::string, std::string> kPresetsOfFiles = {{"llama3.1-405b", "llama3-405b"},
                                                            {"llama3.3-70b", "llama3-70b"}};

// Their files do not name the depths that their models have.
const std::set<std::string> kDepthsToldElsewhere = {"qwen3-next-80b-a3b", "mimo-v2-flash"};

ModelSpec model_of_preset(const std::string& preset) {
  return load_scenario_text(
             R"({"schema_version": 1, "system": {"preset": "dgx-h100", "nodes": 1},
                 "training": {"global_batch_size": 8}, "model": ")" +
                 preset + "\"}",
             "test.json")
      .model;
}

// The preset of a listed file; empty for a file whose model has none.
std::string preset_of(std::string file) {
  file = file.substr(file.rfind('/') + 1);
  file = file.substr(0, std::min(file.find(".config.json"), file.find(".json")));
  const auto found = kPresetsOfFiles.find(file);
  if (found != kPresetsOfFiles.end()) file = found->second;
  const std::vector<std::string> names = builtin_preset_names("models");
  return std::find(names.begin(), names.end(), file) == names.end() ? "" : file;
}

}  // namespace

TEST_CASE("M1, M13: Each listed model is imported with its count, or refused by name",
          "[exchange]") {
  for (const ListedModel& listed : kListedModels) {
    INFO(listed.file);
    if (*listed.refused != '\0') {
      const Printed printed = shardsim({"import", "hf", kData + listed.file});
      INFO(printed.err);
      CHECK(printed.exit_code == 2);
      CHECK(printed.out.empty());
      CHECK(contains(printed.err, listed.refused));
      continue;
    }
    const Imported imported = import_file({"hf", kData + listed.file});
    const ModelSpec& model = imported.scenario.model;
    const std::int64_t counted = num_parameters(model) + choice_biases(model);
    const auto most = static_cast<double>(listed.parameters) * listed.within;
    INFO(counted << " parameters, listed with " << listed.parameters);
    CHECK(static_cast<double>(std::abs(counted - listed.parameters)) <= most);
    CHECK(contains(imported.printed.err, std::to_string(counted)));
  }
}

TEST_CASE("A preset names the depths of prediction and the tower that its model's file has",
          "[exchange]") {
  int num_compared = 0;
  for (const ListedModel& listed : kListedModels) {
    const std::string preset = preset_of(listed.file);
    if (*listed.refused != '\0' || preset.empty()) continue;
    const Imported imported = import_file({"hf", kData + listed.file});
    const ModelSpec published = model_of_preset(preset);
    INFO(listed.file << ", " << preset << ": " << published.not_modelled << imported.printed.err);
    const bool is_predicting = contains(imported.printed.err, "num_nextn_predict_layers  ");
    const bool adds = imported.scenario.model.mtp_num_layers > 0;
    const bool is_named = contains(published.not_modelled, "multi-token prediction");
    CHECK(contains(published.not_modelled, "(mtp_num_layers adds it)") == adds);
    const bool is_told_elsewhere = kDepthsToldElsewhere.contains(preset);
    CHECK(is_named == (adds || is_predicting || is_told_elsewhere));
    if (contains(imported.printed.err, "vision_config")) {
      CHECK(contains(published.not_modelled, "the vision tower"));
    }
    ++num_compared;
  }
  CHECK(num_compared > 50);
}

TEST_CASE("Ling's and Hunyuan's own keys are read as their code reads them", "[exchange]") {
  const ModelSpec ling = import_file({"hf", kData + "configs/ling-1t.json"}).scenario.model;
  CHECK(ling.query_key_norm == QueryKeyNorm::per_head);
  CHECK(ling.rotary_dim == 64);
  CHECK(ling.moe_router_score == RouterScore::sigmoid);
  CHECK(ling.moe_router_num_groups == 8);
  CHECK(ling.moe_router_group_topk == 4);
  CHECK(ling.mtp_num_layers == 1);
  CHECK(ling.num_shared_experts == 1);
  CHECK_FALSE(ling.query_key_value_bias);
  const Imported hunyuan = import_file({"hf", kData + "configs/hunyuan-a13b.json"});
  CHECK(hunyuan.scenario.model.num_experts_per_token == 8);
  CHECK(hunyuan.scenario.model.moe_shared_ffn_hidden_size == 3072);
  CHECK_FALSE(hunyuan.scenario.model.moe_shared_gate);
  CHECK(hunyuan.scenario.model.query_key_norm == QueryKeyNorm::per_head);
  CHECK(contains(hunyuan.printed.err, "come ahead of rotary positions here"));
}

TEST_CASE("Ling's switches change the model, and what its code has not is refused", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"({"model_type": "bailing_moe_v2", "hidden_size": 64,
    "intermediate_size": 96, "vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 4, "max_position_embeddings": 64, "head_dim": 16, "num_experts": 16,
    "num_experts_per_tok": 8, "moe_intermediate_size": 32, "num_nextn_predict_layers": 1)";
  write(file, keys + R"(, "use_qkv_bias": true, "use_bias": true, "mtp_loss_scaling_factor": 0.3,
    "moe_router_enable_expert_bias": false})");
  const ModelSpec model = import_file({"hf", file}).scenario.model;
  CHECK(model.query_key_value_bias);
  CHECK(model.attention_out_bias);
  CHECK(model.mtp_loss_scaling_factor == 0.3);
  CHECK(model.moe_router_bias_update_rate == 0.0);
  CHECK(model.moe_router_num_groups == 8);  // Its class's own.
  write(file, keys + R"(, "score_function": "softmax"})");
  CHECK(contains(shardsim({"import", "hf", file}).err, "score_function softmax"));
}

TEST_CASE("Ling-lite's file is read, and Ling 2.0's of the same model_type by its architecture",
          "[exchange]") {
  const std::string lite = content_of(kData + "ling-lite-1.5.config.json");
  const ModelSpec model = import_file({"hf", kData + "ling-lite-1.5.config.json"}).scenario.model;
  CHECK(num_parameters(model) == 16'801'974'272);
  CHECK(model.moe_router_score == RouterScore::softmax);
  CHECK(model.moe_router_normalised);
  CHECK(model.moe_router_num_groups == 1);
  CHECK(model.moe_router_bias_update_rate == 0.0);
  CHECK(model.query_key_norm == QueryKeyNorm::none);
  CHECK(model.num_shared_experts == 2);
  CHECK_FALSE(model.attention_out_bias);
  const auto changed = [&lite](const std::string& old, const std::string& text) {
    std::string file = lite;
    return file.replace(file.find(old), old.size(), text);
  };
  const TemporaryFolder folder;
  const auto imported = [&folder](const std::string& text) {
    write(folder / "config.json", text);
    return import_file({"hf", folder / "config.json"}).scenario.model;
  };
  // Eight experts of four groups, as Ling 2.0 chooses them.
  std::string later = changed("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM");
  const std::string chosen = R"("num_experts_per_tok": 6)";
  const ModelSpec second =
      imported(later.replace(later.find(chosen), chosen.size(), R"("num_experts_per_tok": 8)"));
  CHECK(second.moe_router_score == RouterScore::sigmoid);
  CHECK(second.moe_router_num_groups == 8);
  CHECK(second.query_key_norm == QueryKeyNorm::per_head);
  CHECK(imported(changed(R"("use_bias": false,)", "")).attention_out_bias);  // Its class's own.
  write(folder / "config.json", changed(R"("norm_head": false)", R"("score_function": "sigmoid")"));
  CHECK(contains(shardsim({"import", "hf", folder / "config.json"}).err,
                 "score_function sigmoid (its code has softmax)"));
}

TEST_CASE("Ling's shared experts may have a width of their own", "[exchange]") {
  const std::string lite = content_of(kData + "ling-lite-1.5.config.json");
  const TemporaryFolder folder;
  for (const auto& [width, shared] : {std::pair{1408, 2816}, std::pair{512, 1024}}) {
    std::string file = lite;
    write(folder / "config.json",
          file.replace(file.find(R"("norm_head")"), 0,
                       R"("moe_shared_expert_intermediate_size": )" + std::to_string(width) + ","));
    const Imported imported = import_file({"hf", folder / "config.json"});
    INFO(imported.printed.err);
    CHECK(imported.scenario.model.moe_shared_ffn_hidden_size == shared);
    const bool is_own = width != 1408;
    CHECK(contains(imported.printed.err, "of all shared experts together") == is_own);
    CHECK(contains(imported.printed.err, "the width of other experts, times") == !is_own);
    CHECK(num_parameters(imported.scenario.model) ==
          16'801'974'272 - 28LL * 3 * 2048 * (2816 - shared));
  }
}

TEST_CASE("Hunyuan's shared experts are counted, and what its code has not is refused",
          "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"({"model_type": "hunyuan_v1_moe", "hidden_size": 64,
    "intermediate_size": 96, "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 3,
    "max_position_embeddings": 64, "moe_topk": 2, "num_experts": 8, "cla_share_factor": 2,
    "norm_type": "rms", "org_vocab_size": 100, "im_end_id": 5, "dense_list": [64, 0])";
  const auto shared_width = [&](const std::string& more) {
    write(file, keys + more + "}");
    return import_file({"hf", file}).scenario.model.moe_shared_ffn_hidden_size;
  };
  CHECK(shared_width("") == 96);
  CHECK(shared_width(R"(, "num_shared_expert": [1, 1, 1], "use_mla": false)") == 96);
  CHECK(shared_width(R"(, "num_shared_expert": 2)") == 192);
  CHECK(shared_width(R"(, "num_shared_expert": 0)") == 0);
  for (const auto& [more, said] :
       {std::pair{R"(, "num_shared_expert": [1, 2, 1])", "the same one for each layer"},
        std::pair{R"(, "use_mla": true)", "use_mla: latent attention"},
        std::pair{R"(, "use_cla": true)",
                  "share keys and values (1 of 3 layers lack 8192 parameters and 16384 FLOPs"},
        std::pair{R"(, "norm_type": "layer")", "\"norm_type\" is not known here"}}) {
    INFO(more);
    std::string text = keys;
    const std::string norm = R"("norm_type": "rms", )";
    if (std::string(more).find("norm_type") != std::string::npos) {
      text.replace(text.find(norm), norm.size(), "");
    }
    write(file, text + more + "}");
    const Printed printed = shardsim({"import", "hf", file});
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, said));
  }
}

TEST_CASE("A number for each layer is one if all are the same", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  const std::string keys = R"({"model_type": "hunyuan_v1_moe", "hidden_size": 64,
    "intermediate_size": 96, "vocab_size": 100, "num_attention_heads": 4, "num_hidden_layers": 3,
    "max_position_embeddings": 64, "moe_topk": 2, "num_experts": )";
  write(file, keys + "[8, 8, 8]}");
  CHECK(import_file({"hf", file}).scenario.model.num_experts == 8);
  for (const char* wrong : {"[8, 8, 4]", "[]", "[8, \"8\", 8]"}) {
    INFO(wrong);
    write(file, keys + wrong + "}");
    const Printed printed = shardsim({"import", "hf", file});
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, "\"num_experts\" is"));
    CHECK(contains(printed.err, "the same one for each layer"));
  }
}

}  // namespace shardsim::test
