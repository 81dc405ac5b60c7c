#include <string>
#include <vector>

#include <catch2/catch.hpp>

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

Printed import_falcon(const std::string& text, bool approximate = false) {
  const TemporaryFolder folder;
  write(folder / "config.json", text);
  std::vector<std::string> words = {"import", "hf", folder / "config.json"};
  if (approximate) words.push_back("--approximate");
  return shardsim(words);
}

void check_refused(const std::string& old, const std::string& text, const std::string& said) {
  const Printed printed = import_falcon(falcon_with(old, text));
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, said));
}

// Its factors within branches are 1, so a scenario can say all of it.
std::string sayable_falcon() {
  std::string file = content_of(kData + kHalfBillion);
  for (const char* key : {"mlp_multipliers", "ssm_multipliers"}) {
    const std::size_t begin = file.find('[', file.find(key));
    file.replace(begin, file.find(']', begin) + 1 - begin, "null");
  }
  for (const char* each : {R"("ssm_in_multiplier": 1.25)", R"("ssm_out_multiplier": 0.2357022)"}) {
    const std::string line = each;
    const std::size_t begin = file.find(line);
    REQUIRE(begin != std::string::npos);
    file.replace(begin, file.find(',', begin) - begin, line.substr(0, line.find(':')) + ": 1.0");
  }
  return file;
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

TEST_CASE("Falcon-H1's factors around branches are said, those within are named", "[exchange]") {
  const Printed refused = shardsim({"import", "hf", kData + kHalfBillion});
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err,
                 "not supported: mlp_multipliers [0.8838834764831844, 0.5859375], ssm_multipliers "
                 "[0.3535533905932738, 0.25, 0.3535533905932738, 0.5, 0.3535533905932738], "
                 "ssm_in_multiplier 1.25, ssm_out_multiplier 0.23570226039551587: fixed factors "
                 "within branches (0 parameters and 0 FLOPs per token forward; they change "
                 "values)"));
  const Imported imported = import_file({"hf", kData + kHalfBillion, "--approximate"});
  const ModelSpec& model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(contains(imported.printed.err, "fixed factors within branches"));
  CHECK(contains(imported.printed.err, "521411104 parameters"));
  CHECK(num_parameters(model) == 521'411'104);
  CHECK(model.embedding_scale == 5.656854249492381);
  CHECK(model.logit_scale == 0.0390625);
  CHECK(model.attention_scale == Approx(0.390625 / 8.0));
  CHECK(model.value_scale == 0.9375);
  CHECK(import_falcon(sayable_falcon()).exit_code == 0);
}

TEST_CASE("The factor of attention's input scales scores twice and values once", "[exchange]") {
  std::string file = sayable_falcon();
  const std::string in = R"("attention_in_multiplier": 1.0)";
  file.replace(file.find(in), in.size(), R"("attention_in_multiplier": 0.5)");
  const Printed printed = import_falcon(file);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const ModelSpec model = load_scenario_text(printed.out, "imported.json").model;
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
}

TEST_CASE("Falcon-H1's Mamba-2 has a norm by groups, and heads of its inner width", "[exchange]") {
  std::string file = sayable_falcon();
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
