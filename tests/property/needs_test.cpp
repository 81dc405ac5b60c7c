#include <array>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/run/run.hpp"

#include "tests/property/expert_layouts.hpp"
#include "tests/sample.hpp"

// Needs of models of today beyond a Llama: each alone and every two together, under every axis.
namespace shardsim::test {
namespace {

constexpr const char* kPlainLlama = "scenarios/verify-llama-ddp.json";

// Fields of the model, and keys of its first and last layer.
struct Need {
  const char* name;
  std::map<std::string, std::string> fields;
  std::map<std::string, std::string> layer;

  [[nodiscard]] bool has_mixer() const { return layer.count("mixer") > 0; }
};

using Fields = std::map<std::string, std::string>;

const Fields kExpertsAlone = {
    {"num_experts", "4"}, {"num_experts_per_token", "2"}, {"moe_ffn_hidden_size", "12"}};

Fields experts_with(Fields more) {
  more.insert(kExpertsAlone.begin(), kExpertsAlone.end());
  return more;
}

const std::vector<Need> kNeeds = {
    {"head size", {{"head_dim", "8"}}, {}},
    {"one head of keys and values, copied to tensor-parallel ranks",
     {{"num_query_groups", "1"}},
     {}},
    {"norms of heads", {{"query_key_norm", "per_head"}}, {}},
    {"whole norms of queries and keys", {{"query_key_norm", "whole"}}, {}},
    {"norms without weights", {{"query_key_norm", "weightless"}}, {}},
    {"biases of queries, keys, values", {{"query_key_value_bias", "true"}}, {}},
    {"bias of attention's output", {{"attention_out_bias", "true"}}, {}},
    {"biases of the MLP", {{"mlp_bias", "true"}}, {}},
    {"factors of the MLP", {{"mlp_gate_scale", "0.7"}, {"mlp_output_scale", "1.5"}}, {}},
    {"output gate", {{"attention_output_gate", "true"}}, {}},
    {"size of values", {{"value_head_dim", "5"}}, {}},
    {"heads of some layers",
     {},
     {{"num_attention_heads", "8"}, {"num_query_groups", "4"}, {"head_dim", "4"}}},
    {"keys that are values", {}, {{"head_dim", "8"}, {"keys_are_values", "true"}}},
    {"norm and scale of values", {{"value_norm", "true"}, {"value_scale", "0.7"}}, {}},
    {"gates of heads", {{"attention_head_gate", "true"}}, {}},
    {"partial rotary", {{"rotary_dim", "2"}}, {}},
    {"scale of scores", {{"attention_scale", "0.2"}}, {}},
    {"cap of scores", {{"attention_logit_cap", "0.5"}}, {}},
    {"cap of logits", {{"final_logit_cap", "2"}}, {}},
    {"layers without rotary", {}, {{"rotary", "false"}}},
    {"queries that grow",
     {{"query_temperature_scale", "0.1"}, {"query_temperature_floor", "3"}},
     {{"rotary", "false"}}},
    {"window", {}, {{"attention", "\"sliding\""}, {"window_size", "5"}}},
    {"chunks", {}, {{"attention", "\"chunked\""}, {"chunk_size", "4"}}},
    {"sinks", {}, {{"sinks", "true"}}},
    {"latent attention",
     {{"kv_lora_rank", "10"},
      {"q_lora_rank", "14"},
      {"qk_nope_head_dim", "4"},
      {"qk_rope_head_dim", "2"},
      {"value_head_dim", "5"},
      {"num_query_groups", "4"}},
     {}},
    {"gated DeltaNet",
     {{"linear_num_key_heads", "4"},
      {"linear_num_value_heads", "8"},
      {"linear_key_head_dim", "3"},
      {"linear_value_head_dim", "5"}},
     {{"mixer", "\"delta_net\""}}},
    {"Mamba-2",
     {{"mamba_num_heads", "8"},
      {"mamba_head_dim", "3"},
      {"mamba_num_groups", "4"},
      {"mamba_state_size", "5"},
      {"mamba_chunk_size", "4"}},
     {{"mixer", "\"mamba\""}, {"feed_forward", "\"none\""}}},
    {"attention beside Mamba-2",
     {{"mamba_num_heads", "8"},
      {"mamba_head_dim", "3"},
      {"mamba_num_groups", "4"},
      {"mamba_state_size", "5"},
      {"mamba_chunk_size", "4"},
      {"mamba_norm", "false"}},
     {{"mixer", "\"attention_mamba\""}}},
    {"factors within Mamba-2",
     {{"mamba_num_heads", "8"},
      {"mamba_head_dim", "3"},
      {"mamba_num_groups", "4"},
      {"mamba_state_size", "5"},
      {"mamba_chunk_size", "4"},
      {"mamba_norm", "false"},
      {"mamba_z_scale", "0.6"},
      {"mamba_x_scale", "1.5"},
      {"mamba_b_scale", "0.7"},
      {"mamba_c_scale", "1.25"},
      {"mamba_dt_scale", "0.8"},
      {"mamba_output_scale", "0.5"}},
     {{"mixer", "\"attention_mamba\""}}},
    {"GEGLU", {{"activation", "geglu_tanh"}}, {}},
    {"clamped SwiGLU", {{"activation", "clamped_swiglu"}, {"swiglu_limit", "0.05"}}, {}},
    {"squared ReLU", {{"activation", "squared_relu"}}, {}},
    {"norms behind", {{"norm_placement", "post"}}, {}},
    {"norms around", {{"norm_placement", "sandwich"}}, {}},
    {"zero-centred norms", {{"norm_zero_centred", "true"}}, {}},
    {"layer norms", {{"norm_kind", "layer_norm"}}, {}},
    {"parallel block", {{"parallel_block", "true"}}, {}},
    {"scales", {{"embedding_scale", "3"}, {"residual_scale", "0.5"}, {"logit_scale", "0.5"}}, {}},
    {"tied embeddings", {{"tied_embeddings", "true"}}, {}},
    {"multi-token prediction", {{"mtp_num_layers", "1"}}, {}},
    {"sigmoid router with bias and groups",
     experts_with({{"moe_router_score", "sigmoid"},
                   {"moe_router_bias_update_rate", "0.05"},
                   {"moe_router_num_groups", "2"},
                   {"moe_router_group_topk", "1"}}),
     {}},
    {"softmax router, not renormalised",
     experts_with({{"moe_router_normalised", "false"}, {"moe_aux_loss_coeff", "0.1"}}),
     {}},
    {"biases of experts and router",
     experts_with({{"moe_expert_bias", "true"}, {"moe_router_logit_bias", "true"}}),
     {}},
    {"gated shared expert",
     experts_with({{"num_shared_experts", "1"}, {"moe_shared_gate", "true"}}),
     {}},
    {"experts on latents", experts_with({{"moe_latent_size", "10"}}), {}},
    {"weight on the input",
     {{"num_experts", "4"},
      {"moe_ffn_hidden_size", "12"},
      {"num_experts_per_token", "1"},
      {"moe_router_score", "sigmoid"},
      {"moe_router_normalised", "false"},
      {"moe_weight_on_input", "true"}},
     {}},
    {"a dense first layer", experts_with({{"first_dense_layers", "1"}}), {}},
};

struct NeedLayout {
  const char* name;
  int ranks;
  int data;  // Data-parallel ranks among them.
  Overrides fields;
};

const std::vector<NeedLayout> kNeedLayouts = {
    {"tp 2", 2, 1, {"parallelism.tp=2"}},
    {"tp 2 sp", 2, 1, {"parallelism.tp=2", "parallelism.sequence_parallel=true"}},
    {"cp 2 ring", 2, 1, {"parallelism.cp=2", "parallelism.cp_attention=ring"}},
    {"cp 2 all-gather", 2, 1, {"parallelism.cp=2", "parallelism.cp_attention=all_gather"}},
    {"cp 2 Ulysses", 2, 1, {"parallelism.cp=2", "parallelism.cp_attention=ulysses"}},
    {"pp 2", 2, 1, {"parallelism.pp=2", "parallelism.stage_layers=[2, 1]"}},
    {"ep 2", 2, 2, {"parallelism.ep=2"}},
    {"zero 1", 2, 2, {"parallelism.zero_stage=1"}},
    {"zero 2", 2, 2, {"parallelism.zero_stage=2"}},
    {"zero 3", 2, 2, {"parallelism.zero_stage=3"}},
    {"tp 2 sp cp 2 pp 2 zero 1",
     16,
     2,
     {"parallelism.tp=2", "parallelism.sequence_parallel=true", "parallelism.cp=2",
      "parallelism.pp=2", "parallelism.stage_layers=[1, 2]", "parallelism.zero_stage=1",
      "training.recompute=selective"}},
};

// Few needs have experts: pairs go round the layouts above.
const NeedLayout kSlices = {"ep 2 etp 2", 4, 4, {"parallelism.ep=2", "parallelism.etp=2"}};

// A layer has one mixer only: beside one, the second need has the middle layer.
std::string layer_text(const Fields& keys) {
  std::string text;
  for (const auto& [key, value] : keys) {
    text += (text.empty() ? "" : ", ") + ("\"" + key + "\": ") + value;
  }
  return "{" + text + "}";
}

std::string layers_text(const Need& a, const Need& b) {
  if (a.has_mixer() || b.has_mixer()) {
    return "[" + layer_text(a.layer) + ", " + layer_text(b.layer) + ", " + layer_text({}) + "]";
  }
  Fields both = a.layer;
  both.insert(b.layer.begin(), b.layer.end());
  return "[" + layer_text(both) + ", " + layer_text({}) + ", " + layer_text(both) + "]";
}

// Two values for one field, or two ways to split the layers, are no pair.
bool may_meet(const Need& a, const Need& b) {
  const auto disagree = [](const Fields& x, const Fields& y) {
    for (const auto& [key, value] : x) {
      const auto other = y.find(key);
      if (other != y.end() && other->second != value) return true;
    }
    return false;
  };
  if (disagree(a.fields, b.fields)) return false;
  return a.has_mixer() || b.has_mixer() || !disagree(a.layer, b.layer);
}

Overrides overrides_of_needs(const Need& a, const Need& b, const NeedLayout& layout) {
  Overrides overrides = layout.fields;
  Fields fields = a.fields;
  fields.insert(b.fields.begin(), b.fields.end());
  for (const auto& [field, value] : fields) overrides.push_back("model." + field + "=" + value);
  overrides.push_back("model.layers=" + layers_text(a, b));
  for (const std::string& more :
       {set("system.gpus_per_node", layout.ranks), set("system.nodes", 1),
        set("model.num_layers", 3), set("model.seq_len", 16), set("execution.steps", 3),
        set("training.micro_batch_size", 1), set("training.num_microbatches", 2),
        set("training.global_batch_size", 2 * layout.data)}) {
    overrides.push_back(more);
  }
  return overrides;
}

// The trace of what every rank does, and when, with routing that values do not decide.
std::string trace_of(Overrides overrides, const char* tensors) {
  overrides.push_back(choose("execution.tensors", tensors));
  overrides.emplace_back("model.moe_routing=uniform");
  const Result result = run_scenario(load_scenario(kPlainLlama, overrides)).result;
  return std::get<std::string>(*result.find("trace_hash"));
}

bool is_sayable_need(const Overrides& overrides) {
  try {
    (void)load_scenario(kPlainLlama, overrides);
    return true;
  } catch (const ScenarioError&) {
    return false;
  }
}

struct NeedCounts {
  int legal = 0;
  int trained = 0;
  std::map<std::string, int> refused;  // By code.
};

void try_needs(const Need& a, const Need& b, const NeedLayout& layout, std::uint32_t parts,
               NeedCounts& counts) {
  INFO(a.name << ", " << b.name << ", " << layout.name);
  const Overrides overrides = overrides_of_needs(a, b, layout);
  try {
    const Scenario scenario = load_scenario(kPlainLlama, overrides);
    ++counts.legal;
    if (!in_sample(std::string(a.name) + b.name + layout.name, parts)) return;
    ++counts.trained;
    const Result result = run_scenario(scenario).result;
    CHECK(result.exit_code == 0);
    CHECK(result.number("oracle.passed") == 1.0);
  } catch (const ScenarioError& error) {
    ++counts.refused[error.problems().front().code];
  }
}

void tell(const char* what, const NeedCounts& counts) {
  std::cout << "M2: " << what << ": " << counts.legal << " are legal, " << counts.trained
            << " of them were run; refused are";
  for (const auto& [code, count] : counts.refused) std::cout << " " << count << " by " << code;
  std::cout << "\n";
}

}  // namespace

TEST_CASE("M2: what a model of today needs trains as one device under every axis") {
  NeedCounts counts;
  for (const Need& need : kNeeds) {
    for (const NeedLayout& layout : kNeedLayouts) try_needs(need, need, layout, 9, counts);
    try_needs(need, need, kSlices, 1, counts);
  }
  tell("needs alone", counts);
  CHECK(counts.legal == 475);
  // Experts over ranks where there are none, biases of experts in slices, and tensor parallelism
  // without sequence parallelism; one head of keys and values cannot be exchanged.
  CHECK(counts.refused == std::map<std::string, int>{{"E0203", 1}, {"E0206", 88}});
}

TEST_CASE("M2: every two needs of models of today train as one device together") {
  NeedCounts counts;
  std::size_t number = 0;
  for (std::size_t i = 0; i < kNeeds.size(); ++i) {
    for (std::size_t j = i + 1; j < kNeeds.size(); ++j) {
      if (!may_meet(kNeeds[i], kNeeds[j])) continue;
      try_needs(kNeeds[i], kNeeds[j], kNeedLayouts[number++ % kNeedLayouts.size()], 9, counts);
    }
  }
  tell("pairs", counts);
  CHECK(counts.legal == 936);
  // Beside those: a parallel block with norms behind or around, or with latents; dense first layers
  // among layers without a feed-forward; what latent attention has none of; gates of two kinds.
  CHECK(counts.refused ==
        std::map<std::string, int>{
            {"E0201", 3}, {"E0203", 4}, {"E0206", 106}, {"E0242", 1}, {"E0243", 15}});
}

TEST_CASE("M3: every need makes the same calls, work and memory with and without data") {
  int number = 0;
  for (const Need& need : kNeeds) {
    for (std::size_t i = 0; i < kNeedLayouts.size(); ++i) {
      const NeedLayout& layout = kNeedLayouts[i];
      INFO(need.name << ", " << layout.name);
      const Overrides overrides = overrides_of_needs(need, need, layout);
      if (!in_sample(std::string(need.name) + layout.name, 9) || !is_sayable_need(overrides))
        continue;
      ++number;
      CHECK(trace_of(overrides, "real") == trace_of(overrides, "meta"));
    }
  }
  CHECK(number > 20);
}

TEST_CASE("M12: one and two depths train, tied and untied, on one stage and on two") {
  for (const char* depths : {"model.mtp_num_layers=1", "model.mtp_num_layers=2"}) {
    for (const char* tied : {"model.tied_embeddings=true", "model.tied_embeddings=false"}) {
      for (const std::int64_t stages : {1, 2}) {
        INFO(depths << ", " << tied << ", " << stages << " stages");
        const Scenario scenario = load_scenario(
            kPlainLlama, {depths, tied, set("parallelism.pp", stages), set("system.nodes", 1),
                          set("system.gpus_per_node", 2), set("execution.steps", 2),
                          set("training.global_batch_size", 4 / stages)});
        const Result result = run_scenario(scenario).result;
        CHECK(result.number("oracle.passed") == 1.0);
        CHECK(result.number("model.mtp_parameters") > 0.0);
      }
    }
  }
}

}  // namespace shardsim::test
