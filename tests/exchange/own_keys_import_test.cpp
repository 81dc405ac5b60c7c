#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Values of keys that Step, MiMo-V2 and Gemma 4 alone have: shares of 0, lists that are none, keys
// that nobody knows.
namespace shardsim::test {

namespace {

std::string changed_file(const std::string& name, const std::string& old, const std::string& text) {
  std::string file = content_of(kData + name + ".config.json");
  const std::size_t at = file.find(old);
  REQUIRE(at != std::string::npos);
  return file.replace(at, old.size(), text);
}

Imported import_of_text(const std::string& text) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  return import_file({"hf", folder / "config.json"});
}

void require_import_refused(const std::string& text, const std::string& said) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  const Printed printed = shardsim({"import", "hf", folder / "config.json"});
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, said));
}

// Four layers of Step, of which the first sees everything.
std::string step_of_four(const std::string& more) {
  return R"({"model_type": "step3p5", "hidden_size": 64, "intermediate_size": 96,
    "vocab_size": 128, "num_attention_heads": 4, "num_attention_groups": 2, "head_dim": 16,
    "num_hidden_layers": 4, "moe_num_experts": 8, "moe_top_k": 2, "moe_intermediate_size": 32,
    "share_expert_dim": 32, "max_position_embeddings": 64, "sliding_window": 8,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                    "sliding_attention"])" +
         more + "}";
}

std::string with_setting(const std::string& more) {
  return step_of_four(R"(, "attention_other_setting": {"num_attention_heads": 4,
    "num_attention_groups": 2, "head_dim": 16)" +
                      more + "}");
}

}  // namespace

TEST_CASE("A share of 0 turns nothing", "[exchange]") {
  const ModelSpec step =
      import_of_text(step_of_four(R"(, "partial_rotary_factors": [0.5, 0, 0, 0.0])"))
          .scenario.model;
  CHECK(step.layer(0).rotary);
  CHECK(step.rotary_dim == 8);
  CHECK_FALSE(step.layer(1).rotary);
  CHECK_FALSE(step.layer(3).rotary);
  const ModelSpec other =
      import_of_text(step_of_four(R"(, "partial_rotary_factors": [0, 0.5, 0.5, 1])"))
          .scenario.model;
  CHECK_FALSE(other.layer(0).rotary);
  CHECK(other.layer(1).rotary);
  CHECK(other.heads_of(other.layer(1)).rotary_dim == 8);
  CHECK(other.heads_of(other.layer(3)).rotary_dim == 16);
  const ModelSpec gemma =
      import_of_text(changed_file("gemma-4-31b", R"("partial_rotary_factor": 0.25)",
                                  R"("partial_rotary_factor": 0.0)"))
          .scenario.model;
  CHECK(gemma.layer(0).rotary);
  CHECK_FALSE(gemma.layer(5).rotary);
  CHECK(gemma.heads_of(gemma.layer(5)).head_dim == 512);
  const ModelSpec mimo =
      import_of_text(changed_file("mimo-v2-flash", R"("partial_rotary_factor": 0.334)",
                                  R"("partial_rotary_factor": 0)"))
          .scenario.model;
  CHECK_FALSE(mimo.layer(0).rotary);
  CHECK_FALSE(mimo.layer(1).rotary);
  CHECK(mimo.layer(1).window_size == 128);
}

TEST_CASE("Gemma 4's shares are read for proportional angles, of each kind of layer",
          "[exchange]") {
  const auto model_with = [](const std::string& old, const std::string& text) {
    return import_of_text(changed_file("gemma-4-31b", old, text));
  };
  const std::string sliding = R"("rope_theta": 10000.0,
        "rope_type": "default")";
  const ModelSpec half = model_with(sliding, R"("rope_type": "proportional",
        "partial_rotary_factor": 0.5)")
                             .scenario.model;
  CHECK(half.rotary_dim == 128);
  CHECK(half.heads_of(half.layer(0)).rotary_dim == 128);
  CHECK(half.heads_of(half.layer(5)).rotary_dim == 128);  // A quarter of 512.
  const ModelSpec none = model_with(sliding, R"("rope_type": "proportional",
        "partial_rotary_factor": 0)")
                             .scenario.model;
  CHECK_FALSE(none.layer(0).rotary);
  CHECK(none.layer(5).rotary);
  const Imported unread = model_with(sliding, R"("rope_type": "default",
        "partial_rotary_factor": 0.5)");
  CHECK(unread.scenario.model.rotary_dim == 256);
  CHECK(contains(unread.printed.err, "its code reads it for proportional angles alone"));
  // All of it without a share, and by angles of another kind.
  const ModelSpec whole = model_with(R"("partial_rotary_factor": 0.25,)", "").scenario.model;
  CHECK(whole.heads_of(whole.layer(5)).rotary_dim == 512);
  const ModelSpec usual =
      model_with(R"("rope_type": "proportional")", R"("rope_type": "default")").scenario.model;
  CHECK(usual.heads_of(usual.layer(5)).rotary_dim == 512);
  require_import_refused(changed_file("gemma-4-31b", sliding, R"("rope_type": "proportional",
        "partial_rotary_factor": 1.5)"),
                         "E1353");
}

TEST_CASE("A share below 0 or above 1 is refused", "[exchange]") {
  for (const char* wrong : {"-0.5", "1.5", "\"half\""}) {
    INFO(wrong);
    require_import_refused(changed_file("gemma-4-31b", R"("partial_rotary_factor": 0.25)",
                                        R"("partial_rotary_factor": )" + std::string(wrong)),
                           "E1353");
  }
  require_import_refused(step_of_four(R"(, "partial_rotary_factors": [0.5, 1, -1, 1])"),
                         "partial_rotary_factors has a number below 0 or above 1");
}

TEST_CASE("A list for layers that is none, or has no numbers, is refused", "[exchange]") {
  const std::string mimo = content_of(kData + "mimo-v2-flash.config.json");
  const std::size_t first = mimo.find("[", mimo.find("hybrid_layer_pattern"));
  const std::size_t behind = mimo.find("]", first) + 1;
  for (const char* wrong : {"\"01\"", "1", "{}", "true"}) {
    INFO(wrong);
    require_import_refused(mimo.substr(0, first) + wrong + mimo.substr(behind),
                           "\"hybrid_layer_pattern\" is");
  }
  std::string entry = mimo;
  require_import_refused(entry.replace(first + 1, 0, "\"0\", "), "hybrid_layer_pattern has 49");
  const std::size_t zero = mimo.find('0', first);
  entry = mimo;
  require_import_refused(entry.replace(zero, 1, "\"0\""),
                         "\"hybrid_layer_pattern[0]\" is the string \"0\", not a number");
  // True is 1.
  entry = mimo;
  CHECK(import_of_text(entry.replace(zero, 1, "true")).scenario.model.layer(0).window_size == 128);
  require_import_refused(step_of_four(R"(, "partial_rotary_factors": [0.5])"),
                         "partial_rotary_factors has 1 entries for 4 layers");
  require_import_refused(step_of_four(R"(, "partial_rotary_factors": "0.5")"), "not a list");
  require_import_refused(step_of_four(R"(, "partial_rotary_factors": [0.5, "1", 1, 1])"),
                         "\"partial_rotary_factors[1]\" is");
  require_import_refused(step_of_four(R"(, "swiglu_limits": 7)"), "not a list");
  require_import_refused(step_of_four(R"(, "swiglu_limits": [0, 7])"),
                         "swiglu_limits has 2 entries for 4 layers");
  require_import_refused(step_of_four(R"(, "moe_layers_enum": ["3"])"),
                         "\"moe_layers_enum[0]\" is");
  require_import_refused(step_of_four(R"(, "mlp_layer_types": "sparse")"), "not a list");
  std::string kinds = step_of_four("");
  const std::size_t at = kinds.find("[");
  require_import_refused(kinds.replace(at, kinds.find("]") + 1 - at, "\"full_attention\""),
                         "\"layer_types\" is the string");
}

TEST_CASE("Step's setting of windowed heads has known keys", "[exchange]") {
  CHECK(import_of_text(with_setting(R"(, "attention_type": "sliding_attention",
    "true_head_dim": 16, "other": null)"))
            .scenario.model.num_attention_heads == 4);
  require_import_refused(with_setting(R"(, "num_key_value_heads": 4)"),
                         "attention_other_setting.num_key_value_heads 4: this key is not known");
  require_import_refused(with_setting(R"(, "attention_type": "full_attention")"),
                         "attention_other_setting.attention_type full_attention (here it is");
  require_import_refused(with_setting(R"(, "true_head_dim": 8)"),
                         "attention_other_setting.true_head_dim 8 beside head_dim 16");
}

TEST_CASE("What MiMo's windowed heads cannot be is said once", "[exchange]") {
  require_import_refused(changed_file("mimo-v2-flash", R"("swa_num_key_value_heads": 8)",
                                      R"("swa_num_key_value_heads": 7)"),
                         "not supported: swa_num_key_value_heads 7, which do not divide 64 heads");
  require_import_refused(
      changed_file("mimo-v2-flash", R"("swa_head_dim": 192)", R"("swa_head_dim": 191)"),
      "not supported: swa_head_dim 191, of which 63 elements turn (here they are pairs)");
}

TEST_CASE("MiMo's groups of experts are refused by their name", "[exchange]") {
  const std::string grouped = changed_file("mimo-v2-flash", R"("n_group": 1)", R"("n_group": 8)");
  require_import_refused(grouped, "n_group 8, topk_group 1: groups of experts");
}

}  // namespace shardsim::test
