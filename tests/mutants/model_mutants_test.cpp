#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/mutants/model_faults.hpp"
#include "tests/mutants/score.hpp"
#include "tests/strategies/training_case.hpp"

// M8: bugs within models of today. Every operation of their layers is left out once, and what such
// code is known to get wrong is planted.
namespace shardsim::test {
namespace {

ModelOptions with_experts() {
  ModelOptions options = small_model("llama");
  options.moe.num_experts = 4;
  options.moe.experts_per_token = 2;
  options.moe.ffn_hidden_size = 6;
  options.moe.has_expert_bias = true;
  options.moe.shared_ffn_hidden_size = 4;
  options.moe.has_shared_gate = true;
  options.moe.auxiliary_loss_coefficient = 0.5;
  options.moe.router.score = RouterScore::sigmoid;
  options.moe.router.scaling_factor = 2.5;
  options.moe.router.num_groups = 2;
  options.moe.router.group_topk = 1;
  options.moe.router.z_loss_coefficient = 0.1;
  return options;
}

ModelOptions with_modules(ModelOptions options, RecomputeModules modules) {
  options.recompute = Recompute::selective;
  options.recompute_modules = modules;
  return options;
}

std::map<std::string, ModelOptions> models_of_today() {
  std::map<std::string, ModelOptions> models;
  for (const char* name : with_block_shapes(
           {"llama of today", "llama without norm weights", "latent llama",
            "llama with a latent of keys", "llama of wide values", "delta hybrid", "mamba hybrid",
            "predicting llama", "parallel hybrid", "scaled hybrid", "scaled parallel llama",
            "llama of unlike heads", "llama of keys as values", "llama of normed values",
            "llama with gates of heads"})) {
    models[name] = small_model(name);
  }
  models["experts"] = with_experts();
  models["latent experts"] = with_experts();
  models["latent experts"].moe.latent_size = 3;
  for (const char* name : {"llama", "gpt2", "latent llama"}) {
    ModelOptions& low = models[std::string(name) + " in eight bits"] = small_model(name);
    low.low = {.recipe = ScalingRecipe::tensorwise, .needs_transposes = true};
  }
  models["experts in eight bits"] = with_experts();
  models["experts in eight bits"].low = {.recipe = ScalingRecipe::tensorwise};
  using Module = RecomputeModule;
  models["experts that run again"] =
      with_modules(with_experts(), {Module::moe, Module::core_attn, Module::layernorm});
  models["latent llama that runs again"] =
      with_modules(small_model("latent llama"),
                   {Module::mla_up_proj, Module::core_attn, Module::mlp, Module::layernorm});
  return models;
}

// Biases are 0 at first: they act in the second step.
TrainingCase case_of(const std::string& name, const ModelOptions& options) {
  TrainingCase c;
  c.name = name;
  c.model = options;
  c.training.num_microbatches = 2;
  c.training.steps = 2;
  return c;
}

std::vector<StepRecord> steps_of(const TrainingCase& c) {
  const TrainingResult result = run(c);
  std::vector<StepRecord> steps;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.training.steps); ++i) {
    steps.push_back(merge(c, result, i));
  }
  return steps;
}

using Change = std::function<std::unique_ptr<Model>(const ModelPart&)>;

// The oracle agrees with the model without the bug.
Detector finder_in_training(TrainingCase c, const Change& change,
                            const std::vector<StepRecord>& right) {
  c.model_of_rank = [&](const ModelPart& part, int) { return change(part); };
  std::vector<StepRecord> steps;
  try {
    steps = steps_of(c);
  } catch (const Error&) {
    return Detector::oracle;  // Ranks whose counts do not fit their rows do not even train.
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // NaN is an error, too.
    if (!(worst_error(steps[i], right[i]).value <= kOracleBound)) return Detector::oracle;
  }
  return Detector::nobody;
}

std::set<std::string> operations_of(TrainingCase c) {
  std::set<std::string> names;
  c.model_of_rank = [&](const ModelPart& part, int) { return watched(*part.model, names); };
  (void)run(c);
  return names;
}

}  // namespace

TEST_CASE("M8, P56: every operation of a model of today is missed where it is left out") {
  for (const auto& [name, options] : models_of_today()) {
    const TrainingCase c = case_of(name, options);
    const std::vector<StepRecord> right = steps_of(c);
    const auto without = [](const std::string& operation) {
      return
          [operation](const ModelPart& part) { return without_operation(*part.model, operation); };
    };
    INFO(name);
    CHECK(finder_in_training(c, without("none of them"), right) == Detector::nobody);
    for (const std::string& operation : operations_of(c)) {
      INFO("without " << operation);
      count_mutant(Detector::oracle, finder_in_training(c, without(operation), right));
    }
  }
}

TEST_CASE("M8, P56: a factor that is missing in the backward pass is found") {
  struct Alone {
    const char* bug;
    const char* model;
    void (*give)(ModelOptions&);  // The one factor that the model has.
    const char* operation;
  };
  for (const Alone& alone :
       std::vector<Alone>{{"of the gate", "parallel hybrid",
                           [](ModelOptions& o) { o.mlp_gate_scale = 0.7; }, "scale"},
                          {"of the MLP", "parallel hybrid",
                           [](ModelOptions& o) { o.mlp_output_scale = 0.7; }, "scale"},
                          {"of the MLP beside attention", "gpt-j",
                           [](ModelOptions& o) {
                             o.residual_scale = 1.0;
                             o.mlp_output_scale = 0.7;
                           },
                           "scale"},
                          {"of the time steps", "parallel hybrid",
                           [](ModelOptions& o) { o.mamba.dt_scale = 0.7; }, "scale_columns"},
                          {"of Mamba-2", "parallel hybrid",
                           [](ModelOptions& o) { o.mamba.output_scale = 0.7; }, "scale"}}) {
    INFO(alone.bug);
    ModelOptions options = models_of_today().at(alone.model);
    alone.give(options);
    const TrainingCase c = case_of(alone.model, options);
    CHECK(operations_of(c).count(alone.operation) == 1);
    const auto change = [&](const ModelPart& part) {
      return without_operation_backward(*part.model, alone.operation);
    };
    count_mutant(Detector::oracle, finder_in_training(c, change, steps_of(c)));
  }
}

TEST_CASE("M8, P56: weights that are read wrong are found") {
  struct Bent {
    const char* bug;
    const char* model;
    const char* weight;
    double factor;
    double shift;
  };
  const double per_share = std::log(2.0);  // Two shares of the keys count a sink each.
  for (const Bent& bent : std::vector<Bent>{
           {"a sink per share of the keys", "llama of today", "sinks", 1.0, per_share},
           {"a row-parallel bias on each of two ranks", "gpt-oss", "attention.bo", 2.0, 0.0},
           {"the same of the MLP", "gpt-oss", "mlp.down.bias", 2.0, 0.0},
           {"norms around 0", "gemma", "norm", 1.0, -1.0},
           {"biases of experts on each of two ranks", "experts", "down.bias", 2.0, 0.0}}) {
    INFO(bent.bug);
    const TrainingCase c = case_of(bent.model, models_of_today().at(bent.model));
    const auto change = [&](const ModelPart& part) {
      return with_bent_weight(*part.model, bent.weight, bent.factor, bent.shift);
    };
    count_mutant(Detector::oracle, finder_in_training(c, change, steps_of(c)));
  }
}

TEST_CASE("M8, P56: a model with another option than the scenario's is found") {
  struct Other {
    const char* bug;
    const char* model;
    std::function<void(ModelOptions&)> change;
  };
  for (const Other& other : std::vector<Other>{
           {"rotary positions on another part of heads", "llama of today",
            [](ModelOptions& o) { o.rotary_dim = 2; }},
           {"a window of one position more", "llama of today",
            [](ModelOptions& o) { o.layers[0].mask.size += 1; }},
           {"a chunk of one position less", "llama of today",
            [](ModelOptions& o) { o.layers[1].mask.size -= 1; }},
           {"rotary positions where there are none", "llama of today",
            [](ModelOptions& o) { o.layers[1].has_rotary = true; }},
           {"rotary positions with another layer's base", "llama of unlike heads",
            [](ModelOptions& o) { o.layers[0].rope_theta = 0.0; }},
           {"a gate that is not scaled", "scaled hybrid",
            [](ModelOptions& o) { o.mlp_gate_scale = 1.0; }},
           {"an MLP whose output is not scaled", "scaled hybrid",
            [](ModelOptions& o) { o.mlp_output_scale = 1.0; }},
           {"the gate's factor on the MLP's output", "scaled parallel llama",
            [](ModelOptions& o) { std::swap(o.mlp_gate_scale, o.mlp_output_scale); }},
           {"the factor of z on x", "scaled hybrid",
            [](ModelOptions& o) { std::swap(o.mamba.z_scale, o.mamba.x_scale); }},
           {"the factor of B on C", "scaled hybrid",
            [](ModelOptions& o) { std::swap(o.mamba.b_scale, o.mamba.c_scale); }},
           {"time steps that are not scaled", "scaled hybrid",
            [](ModelOptions& o) { o.mamba.dt_scale = 1.0; }},
           {"Mamba's output's factor on its gate", "scaled hybrid",
            [](ModelOptions& o) { std::swap(o.mamba.z_scale, o.mamba.output_scale); }},
           {"values that are not scaled", "llama of unlike heads",
            [](ModelOptions& o) { o.value_scale = 1.0; }},
           {"values that are not normed", "llama of normed values",
            [](ModelOptions& o) { o.value_norm = false; }},
           {"all of a wider head turned", "llama of normed values",
            [](ModelOptions& o) { o.layers[1].heads.rotary_dim = 0; }},
           {"scores that are not capped", "llama of today",
            [](ModelOptions& o) { o.attention_logit_cap = 0.0; }},
           {"routed weights that are not scaled", "experts",
            [](ModelOptions& o) { o.moe.router.scaling_factor = 1.0; }},
           {"routed weights that are not normalised", "experts",
            [](ModelOptions& o) { o.moe.router.normalised = false; }},
           {"groups of experts that are left out", "experts",
            [](ModelOptions& o) { o.moe.router.num_groups = o.moe.router.group_topk = 1; }},
           {"softmax for sigmoid", "experts",
            [](ModelOptions& o) { o.moe.router.score = RouterScore::softmax; }},
           {"a layer in full precision", "llama in eight bits",
            [](ModelOptions& o) { o.low.blocks_at_start = 1; }},
           {"a branch that is not scaled", "granite",
            [](ModelOptions& o) { o.residual_scale = 1.0; }},
           {"SwiGLU with another limit", "gpt-oss",
            [](ModelOptions& o) { o.activation.limit *= 0.01; }},
           {"norms in front for norms behind", "olmo",
            [](ModelOptions& o) { o.norm_placement = NormPlacement::pre; }},
           {"a loss of prediction with another weight", "predicting llama",
            [](ModelOptions& o) { o.mtp_loss_scaling_factor *= 2.0; }}}) {
    INFO(other.bug);
    const TrainingCase c = case_of(other.model, models_of_today().at(other.model));
    ModelOptions options = c.model;
    other.change(options);
    const auto change = [&](const ModelPart&) { return make_model(options); };
    count_mutant(Detector::oracle, finder_in_training(c, change, steps_of(c)));
  }
}

}  // namespace shardsim::test
