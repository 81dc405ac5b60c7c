#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/compressors.hpp"

#include "scenarios/field.hpp"
#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"

// Fields are bound to the options' own enumerations: each spelling is the choice that it names.
namespace shardsim::test {
namespace {

template <typename Choice>
struct Spelling {
  const char* word;
  Choice choice;
};

// Checks the choice that `of` finds in the options of `file` for each word of `field`.
template <typename Choice, typename Of>
void check_choices(const std::string& file, const std::string& field,
                   const std::vector<Spelling<Choice>>& spellings, const Of& of) {
  CHECK(choice_names(Choice{}).size() == spellings.size());
  for (const auto& [word, choice] : spellings) {
    INFO(field << " " << word);
    CHECK(to_string(choice) == std::string(word));
    const Experiment experiment =
        compile(load_scenario("scenarios/verify-" + file + ".json", {field + "=" + word}));
    CHECK(of(experiment) == choice);
  }
}

// Compressors are rows of a table in place of an enumeration; null: none of them.
void check_compressors(const std::vector<Spelling<const CompressorRow*>>& spellings) {
  const std::string path = "parallelism.gradient_compression";
  const Field* const row = find_field(path);
  REQUIRE(row != nullptr);
  REQUIRE(row->choices.size() == spellings.size());
  for (std::size_t i = 0; i < spellings.size(); ++i) {
    const std::string word = spellings[i].word;
    INFO(path << " " << word);
    CHECK(row->choices[i] == word);
    const Scenario scenario = load_scenario("scenarios/verify-mlp-ddp.json", {path + "=" + word});
    CHECK(std::get<std::string>(row->get(scenario)) == word);
    const Experiment experiment = compile(scenario);
    CHECK(experiment.options().sync.compression.compressor == spellings[i].choice);
  }
}

}  // namespace

TEST_CASE("what a model computes again, attends and routes by is the choice that is spelled") {
  check_choices<Recompute>(
      "gpt-ddp", "training.recompute",
      {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
      [](const Experiment& experiment) { return experiment.options().model.recompute; });
  check_choices<ContextAttention>(
      "gpt-cp4-ulysses", "parallelism.cp_attention",
      {{"ring", ContextAttention::ring},
       {"all_gather", ContextAttention::all_gather},
       {"ulysses", ContextAttention::ulysses},
       {"two_level", ContextAttention::two_level}},
      [](const Experiment& experiment) { return experiment.options().model.context_attention; });
  check_choices<RoutingKind>(
      "llama-ep2-file", "model.moe_routing",
      {{"learned", RoutingKind::learned},
       {"uniform", RoutingKind::uniform},
       {"skewed", RoutingKind::skewed},
       {"file", RoutingKind::listed}},
      [](const Experiment& experiment) { return experiment.options().model.moe.routing; });
}

TEST_CASE("what ranks do with gradients is the choice that is spelled") {
  check_compressors({{"none", nullptr}, {"top_k", &largest_elements()}, {"int8", &int8_blocks()}});
  check_choices<NormType>(
      "gpt-ddp", "training.grad_norm_type", {{"l2", NormType::two}, {"inf", NormType::infinity}},
      [](const Experiment& experiment) { return experiment.options().training.grad_norm_type; });
  check_choices<LossScaling::Mode>(
      "gpt-tp2-pp2-dp2-fp16", "training.loss_scaling",
      {{"none", LossScaling::Mode::none},
       {"static", LossScaling::Mode::constant},
       {"dynamic", LossScaling::Mode::dynamic}},
      [](const Experiment& experiment) { return experiment.options().training.loss_scaling.mode; });
  check_choices<Algorithm>(
      "gpt-ddp", "execution.all_reduce_algorithm",
      {{"automatic", Algorithm::automatic}, {"ring", Algorithm::ring}, {"tree", Algorithm::tree}},
      [](const Experiment& experiment) { return experiment.world().all_reduce_algorithm; });
}

TEST_CASE("a precision is the type that it names, of weights and of their peak") {
  for (const DType type : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    const std::string word = to_string(type);
    INFO(word);
    const std::string peak = "system.device.peak_tflops." + word + "=7";
    const Experiment experiment = compile(
        load_scenario("scenarios/verify-gpt-ddp.json", {"training.precision=" + word, peak}));
    CHECK(experiment.options().model.dtype == type);
    CHECK(experiment.options().sync.weight_dtype == type);
    CHECK(experiment.cluster().device.peak(type) == 7e12);
  }
}

}  // namespace shardsim::test
