#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Falcon-H1's config.json: attention and Mamba-2 beside each other in each layer, and its factors.
namespace shardsim::test {

namespace {

constexpr const char* kHalfBillion = "falcon-h1-0.5b.config.json";

std::string falcon_with(const std::string& old, const std::string& text) {
  std::string file = content_of(kData + kHalfBillion);
  const std::size_t at = file.find(old);
  REQUIRE(at != std::string::npos);
  return file.replace(at, old.size(), text);
}

Printed import_falcon(const std::string& text) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  return shardsim({"import", "hf", folder / "config.json"});
}

void check_refused(const std::string& old, const std::string& text, const std::string& said) {
  const Printed printed = import_falcon(falcon_with(old, text));
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, said));
}

// With another list.
std::string falcon_with_list(const std::string& key, const std::string& text) {
  std::string file = content_of(kData + kHalfBillion);
  const std::size_t begin = file.find('[', file.find(key));
  REQUIRE(begin != std::string::npos);
  return file.replace(begin, file.find(']', begin) + 1 - begin, text);
}

ModelSpec model_of(const std::string& text) {
  const Printed printed = import_falcon(text);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  return load_scenario_text(printed.out, "imported.json").model;
}

}  // namespace

TEST_CASE("Falcon-H1 is imported with both mixers in each layer, as its preset", "[exchange]") {
  const ModelSpec model = import_file({"hf", kData + "configs/falcon-h1-34b.json"}).scenario.model;
  const Scenario preset = load_scenario_text(
      R"({"schema_version": 1, "model": "falcon-h1-34b",
          "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8}})",
      "test.json");
  CHECK(model.layers_mixed_by(Mixer::attention_mamba) == 72);
  CHECK_FALSE(model.mamba.has_norm);
  CHECK(num_parameters(model) == 33'642'221'312);
  CHECK(num_parameters(model) == num_parameters(preset.model));
  CHECK(model.mamba.state_size == preset.model.mamba.state_size);
  CHECK(model.rope_theta == preset.model.rope_theta);
  CHECK(model.layer(0).rotary);
}

TEST_CASE("Falcon-H1's factors around branches and within them are said", "[exchange]") {
  const Imported imported = import_file({"hf", kData + kHalfBillion});
  const ModelSpec& model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(contains(imported.printed.err, "521411104 parameters"));
  CHECK(num_parameters(model) == 521'411'104);
  CHECK(model.embedding_scale == 5.656854249492381);
  CHECK(model.logit_scale == 0.0390625);
  CHECK(model.attention_scale == Approx(0.390625 / 8.0));
  CHECK(model.value_scale == 0.9375);
  CHECK(model.mlp_gate_scale == 0.8838834764831844);
  CHECK(model.mlp_output_scale == 0.5859375);
  // That of Mamba-2's input is one of each part of its projection.
  CHECK(model.mamba.z_scale == 1.25 * 0.3535533905932738);
  CHECK(model.mamba.x_scale == 1.25 * 0.25);
  CHECK(model.mamba.b_scale == 1.25 * 0.3535533905932738);
  CHECK(model.mamba.c_scale == 1.25 * 0.5);
  CHECK(model.mamba.dt_scale == 1.25 * 0.3535533905932738);
  CHECK(model.mamba.output_scale == 0.23570226039551587);
  CHECK(contains(imported.printed.err,
                 "model.mamba_c_scale = 0.625: ssm_in_multiplier x ssm_multipliers[3]"));
  CHECK(contains(imported.printed.err, "mlp_multipliers[1]"));
}

TEST_CASE("Falcon-H1's lists of factors are those that its code reads", "[exchange]") {
  const ModelSpec one_input = model_of(falcon_with_list("ssm_multipliers", "null"));
  CHECK(one_input.mamba.z_scale == 1.25);
  CHECK(one_input.mamba.dt_scale == 1.25);
  const ModelSpec no_list = model_of(falcon_with_list("mlp_multipliers", "null"));
  CHECK(no_list.mlp_gate_scale == 1.0);
  CHECK(no_list.mlp_output_scale == 1.0);
  const auto refusal_of = [](const std::string& key, const std::string& list) {
    const Printed printed = import_falcon(falcon_with_list(key, list));
    CHECK(printed.exit_code == 2);
    return printed.err;
  };
  CHECK(contains(refusal_of("mlp_multipliers", "[0.5, 0.5, 0.5]"),
                 "not supported: mlp_multipliers [0.5, 0.5, 0.5]: fixed factors within branches (0 "
                 "parameters and 0 FLOPs per token forward; they change values)"));
  CHECK(contains(refusal_of("ssm_multipliers", "[1, 2, 3, 4]"),
                 "not supported: ssm_multipliers [1, 2, 3, 4], ssm_in_multiplier 1.25: fixed"));
  CHECK(contains(refusal_of("ssm_multipliers", "[1, 2, 3, 4, 0]"),
                 "ssm_multipliers [1, 2, 3, 4, 0]"));
  CHECK(contains(refusal_of("ssm_multipliers", "2"), "ssm_multipliers"));
  check_refused(R"("ssm_out_multiplier": 0.23570226039551587)", R"("ssm_out_multiplier": -1)",
                "not supported: ssm_out_multiplier -1: fixed factors");
  check_refused(R"("lm_head_multiplier": 0.0390625)", R"("lm_head_multiplier": 0)",
                "not supported: lm_head_multiplier 0: fixed factors");
  check_refused(R"("embedding_multiplier": 5.656854249492381)", R"("embedding_multiplier": -2)",
                "not supported: embedding_multiplier -2: fixed factors");
  CHECK(contains(refusal_of("ssm_multipliers", "[2e9, 1, 1, 1, 1]"), "ssm_multipliers [2"));
}

TEST_CASE("The nearest model leaves out each factor that no field can say", "[exchange]") {
  const TemporaryFolder folder;
  for (const char* key : {"lm_head_multiplier", "embedding_multiplier", "ssm_out_multiplier"}) {
    for (const char* value : {"0", "-2", "2000000"}) {
      std::string text = content_of(kData + kHalfBillion);
      const std::string name = "\"" + std::string(key) + "\": ";
      const std::size_t begin = text.find(name) + name.size();
      text.replace(begin, text.find(',', begin) - begin, value);
      write(folder / "config.json", text);
      const Imported imported = import_file({"hf", folder / "config.json", "--approximate"});
      INFO(key << " " << value << imported.printed.err);
      CHECK(contains(imported.printed.err, std::string(key) + " " + value));
      const ModelSpec& model = imported.scenario.model;
      const bool is_head = std::string(key) == "lm_head_multiplier";
      const bool is_table = std::string(key) == "embedding_multiplier";
      CHECK((model.logit_scale == 1.0) == is_head);
      CHECK((model.embedding_scale == 1.0) == is_table);
      CHECK((model.mamba.output_scale == 1.0) == !(is_head || is_table));
    }
  }
}

TEST_CASE("A scenario of Falcon-H1 says its factors where it is written out", "[exchange]") {
  const Imported imported = import_file({"hf", kData + kHalfBillion});
  const ModelSpec& model = imported.scenario.model;
  const ModelSpec again =
      load_scenario_text(write_resolved(imported.scenario), "resolved.json").model;
  CHECK(again.mamba == model.mamba);
  CHECK(again.mlp_gate_scale == model.mlp_gate_scale);
  CHECK(again.mlp_output_scale == model.mlp_output_scale);
  const std::string flags = emit_megatron(imported.scenario).text;
  CHECK(contains(flags, "does not scale MLPs (mlp_gate_scale, mlp_output_scale)"));
  CHECK(contains(flags, "has no such factors (mamba_z_scale and others)"));
  const std::string layout = emit_torchtitan(imported.scenario).text;
  CHECK(contains(layout, "scaled MLPs (mlp_gate_scale"));
  CHECK(contains(layout, "factors within Mamba-2 (mamba_z_scale"));
}

TEST_CASE("The factor of attention's input scales scores twice and values once", "[exchange]") {
  std::string file =
      falcon_with(R"("attention_in_multiplier": 1.0)", R"("attention_in_multiplier": 0.5)");
  const ModelSpec model = model_of(file);
  CHECK(model.attention_scale == Approx(0.390625 * 0.25 / 8.0));
  CHECK(model.value_scale == 0.5 * 0.9375);
  // A bias of values comes behind that factor, so no field says it.
  const std::string bias = R"("attention_bias": false)";
  file.replace(file.find(bias), bias.size(), R"("attention_bias": true)");
  const Printed biased = import_falcon(file);
  CHECK(biased.exit_code == 2);
  CHECK(contains(biased.err,
                 "key_multiplier 0.39062499999999994, attention_in_multiplier 0.5, "
                 "attention_out_multiplier 0.9375: fixed factors"));
  // Nor where the output's factor undoes it: that one scales the bias of values, too.
  const std::string out = R"("attention_out_multiplier": 0.9375)";
  file.replace(file.find(out), out.size(), R"("attention_out_multiplier": 2.0)");
  const Printed undone = import_falcon(file);
  CHECK(undone.exit_code == 2);
  CHECK(contains(undone.err, "attention_in_multiplier 0.5, attention_out_multiplier 2: fixed"));
}

TEST_CASE("Falcon-H1's Mamba-2 has a norm by groups, and heads of its inner width", "[exchange]") {
  std::string file = content_of(kData + kHalfBillion);
  const std::string norm = R"("mamba_rms_norm": false)";
  file.replace(file.find(norm), norm.size(), R"("mamba_rms_norm": true)");
  const std::string size = R"("mamba_d_head": 64)";
  file.replace(file.find(size), size.size(), R"("mamba_d_head": "auto")");
  const std::string groups = R"("mamba_n_groups": 1)";
  file.replace(file.find(groups), groups.size(), R"("mamba_n_groups": 2)");
  const Printed printed = import_falcon(file);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  CHECK(contains(printed.err, "mamba_d_ssm / mamba_n_heads"));
  const ModelSpec model = load_scenario_text(printed.out, "imported.json").model;
  CHECK(model.mamba.has_norm);
  CHECK(model.mamba.head_size == 64);
  CHECK(model.mamba.num_groups == 2);
}

TEST_CASE("What a scenario's Mamba-2 has not is refused in Falcon-H1's words", "[exchange]") {
  check_refused(R"("mamba_d_ssm": 1536)", R"("mamba_d_ssm": 2048)",
                "an inner width of Mamba-2 of 2048 beside 24 heads of 64");
  check_refused(R"("mamba_d_ssm": 1536,)", "", "an inner width of Mamba-2 of 1024 beside");
  check_refused(R"("mamba_d_ssm": 1536)", R"("mamba_d_ssm": null)",
                "an inner width of Mamba-2 of 2048 beside");
  check_refused(R"("projectors_bias": false)", R"("projectors_bias": true)",
                "projectors_bias: a bias of the projection behind Mamba-2 (1024 parameters and 0 "
                "FLOPs per token forward in each of 36 layers)");
  std::string kinds;
  for (int layer = 0; layer < 36; ++layer) kinds += layer == 5 ? ", \"mamba\"" : ", \"hybrid\"";
  check_refused(R"("hidden_size": 1024,)",
                R"("hidden_size": 1024, "layers_block_type": [)" + kinds.substr(2) + "],",
                "layers of mamba");
  const std::string gate = R"("mamba_norm_before_gate": )";
  check_refused(gate + R"(false,
  "mamba_proj_bias": false,
  "mamba_rms_norm": false)",
                gate + R"(true, "mamba_rms_norm": true)",
                "mamba_norm_before_gate: a norm ahead of the gate");
  check_refused(R"("hidden_act": "silu")", R"("hidden_act": "gelu_pytorch_tanh")",
                "hidden_act gelu_pytorch_tanh, of Mamba-2, too");
}

}  // namespace shardsim::test
