#include <cstdint>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/metrics.hpp"

// model.parameters and model.active_parameters are summed over the tensors of a model; published
// counts and the formula of ModelSpec are found without them.
namespace shardsim::test {
namespace {

// `depths`: of multi-token prediction.
Scenario scenario_of_model(const std::string& preset, int depths = 0) {
  return load_scenario_text(R"({"schema_version": 1, "model": {"preset": ")" + preset +
                                R"(", "mtp_num_layers": )" + std::to_string(depths) +
                                R"(}, "system": {"preset": "dgx-h100", "nodes": 1},
                                   "parallelism": {"zero_stage": 3},
                                   "training": {"global_batch_size": 8}})",
                            "test.json");
}

// Biases of the choice of experts: state that nothing trains, in published counts all the same.
std::int64_t num_biases(const ModelSpec& m) {
  return m.moe_router_bias_update_rate > 0 ? m.num_experts * m.layers_with_experts() : 0;
}

struct Published {
  std::int64_t all;
  double active_billions;  // To two digits behind the point; 0: all.
};

}  // namespace

TEST_CASE("The parameters of every preset's tensors are those of its formula") {
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder != "models") continue;
    INFO(preset.name);
    const Experiment experiment = compile(scenario_of_model(preset.name));
    const ModelSpec& model = experiment.scenario().model;
    const ParameterCounts counts = parameter_counts(experiment);
    CHECK(counts.all == num_parameters(model) + num_biases(model));
    CHECK((counts.active < counts.all) == (model.num_experts > 0));
  }
}

TEST_CASE("Parameters and active ones are the published") {
  const std::map<std::string, Published> published = {
      {"llama3-8b", {8'030'261'248, 0}},
      {"qwen3-8b", {8'190'735'360, 0}},
      {"smollm3-3b", {3'075'098'624, 0}},
      {"seed-oss-36b", {36'151'104'512, 0}},
      {"mixtral-8x7b", {46'702'792'704, 12.88}},
      {"mixtral-8x22b", {140'620'634'112, 39.15}},
      {"qwen3-30b-a3b", {30'532'122'624, 3.35}},
      {"qwen3-235b-a22b", {235'093'634'560, 22.19}},
      {"qwen3-coder-480b-a35b", {480'154'875'392, 35.47}},
      {"glm-4.5", {352'797'829'024, 33.63}},
      {"glm-4.5-air", {106'852'251'264, 13.42}},
      {"ernie-4.5-21b-a3b", {21'825'437'888, 3.35}},
      {"ernie-4.5-300b-a47b", {299'484'163'264, 47.93}},
      {"ling-1t", {999'705'328'640, 51.05}},
      {"hunyuan-a13b", {80'393'183'232, 12.75}},
      {"minimax-m2", {228'689'764'864, 11.03}},
      {"deepseek-v3", {671'026'419'200, 37.55}},
      {"deepseek-v2-lite", {15'706'484'224, 2.66}},
      {"kimi-k2", {1'026'408'232'448, 32.86}},
      {"llama-4-scout", {107'769'861'120, 17.17}},
      {"llama-4-maverick", {400'711'848'960, 17.18}},
      {"gpt-oss-120b", {116'829'156'672, 5.71}},
      {"gemma-3-27b", {27'009'346'304, 0}},
      {"qwen3-next-80b-a3b", {79'674'391'296, 3.87}},
      {"qwen3.5-27b", {26'895'998'464, 0}},
      {"qwen3.5-35b-a3b", {34'660'610'688, 3.45}},
      {"qwen3.5-397b-a17b", {396'346'350'336, 17.35}},
      {"nemotron-h-56b", {56'324'350'464, 0}},
      {"nemotron-3-nano", {31'577'940'288, 3.58}},
      {"granite-4.0-h-small", {32'207'337'984, 8.80}},
      {"mimo-v2-flash", {308'778'780'864, 15.45}},
      {"nemotron-3-super", {120'668'707'840, 12.77}},
      {"nemotron-3-ultra", {549'308'993'536, 56.06}},
  };
  for (const auto& [name, expected] : published) {
    INFO(name);
    const ParameterCounts counts = parameter_counts(compile(scenario_of_model(name)));
    CHECK(counts.all == expected.all);
    if (expected.active_billions == 0) {
      CHECK(counts.active == expected.all);
    } else {
      CHECK(static_cast<double>(counts.active) / 1e9 ==
            Approx(expected.active_billions).margin(0.005));
    }
  }
}

TEST_CASE("Parameters of multi-token prediction are counted apart, and are DeepSeek-V3's") {
  const std::string name = "deepseek-v3";
  const ParameterCounts counts = parameter_counts(compile(scenario_of_model(name, 1)));
  CHECK(counts.all == 671'026'419'200);
  CHECK(counts.ahead == 11'610'068'224);  // With its router's biases of the choice.
  CHECK(counts.active == parameter_counts(compile(scenario_of_model(name))).active);
}

TEST_CASE("Parameters do not depend on how ranks share them, and biases of experts are theirs") {
  // Two layers; the experts have biases, and a token chooses two of four.
  const auto counts_with = [](const std::vector<std::string>& overrides) {
    return parameter_counts(
        compile(load_scenario("scenarios/verify-llama-expert-biases-ep2-zero3.json", overrides)));
  };
  const ParameterCounts shared = counts_with({});
  const ParameterCounts alone = counts_with({"parallelism.ep=1"});
  CHECK(shared.all == alone.all);
  CHECK(shared.active == alone.active);
  const ModelSpec model =
      load_scenario("scenarios/verify-llama-expert-biases-ep2-zero3.json").model;
  const std::int64_t expert =
      3 * model.hidden_size * model.moe_ffn_hidden_size +
      (model.moe_expert_bias ? 2 * model.moe_ffn_hidden_size + model.hidden_size : 0);
  CHECK(alone.all - alone.active == (model.num_layers - model.first_dense_layers) *
                                        (model.num_experts - model.num_experts_per_token) * expert);
}

}  // namespace shardsim::test
