#include "scenarios/formats/emit.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/model/make_model.hpp"
#include "strategies/optimizer/rules.hpp"

#include "scenarios/formats/megatron.hpp"
#include "scenarios/formats/torchtitan.hpp"
#include "scenarios/stage_places.hpp"
#include "scenarios/suggest.hpp"

// Flags of Megatron-LM's pretrain_gpt.py, as megatron/training/arguments.py has them, and fields of
// torchtitan's ParallelismConfig and TrainingConfig (torchtitan/config), which since 2026 are set
// in Python. DeepSpeed's file is written beside its importer.
namespace shardsim {

namespace {

class Flags {
 public:
  void note(const std::string& words) { notes_ += "# " + words + "\n"; }
  void flag(const std::string& name) { lines_.push_back(megatron::flag_of(name)); }
  void flag(const NamePair& pair) { flag(std::string(pair.theirs)); }
  template <class Value>
  void flag(const std::string& name, const Value& value) {
    lines_.push_back(fmt::format("{} {}", megatron::flag_of(name), value));
  }
  template <class Value>
  void flag(const NamePair& pair, const Value& value) {
    flag(std::string(pair.theirs), value);
  }
  [[nodiscard]] std::string text(const std::string& start) const {
    std::string text = notes_ + start;
    for (const std::string& line : lines_) text += " \\\n  " + line;
    return text + "\n";
  }

 private:
  std::string notes_;
  std::vector<std::string> lines_;
};

// "[1,1,0]": of each layer, whether it is so.
std::string list_of_layers(const ModelSpec& model, bool (*is_so)(const LayerSpec&)) {
  std::vector<int> list;
  for (std::int64_t i = 0; i < model.num_layers; ++i) list.push_back(is_so(model.layer(i)) ? 1 : 0);
  return fmt::format("'[{}]'", fmt::join(list, ","));
}

// Windows, sinks, and layers without rotary positions.
void add_layers(const ModelSpec& model, Flags& flags) {
  std::set<std::int64_t> windows;
  std::set<bool> sinks;
  bool all_turn = true;
  for (const LayerSpec& layer : model.layers) {
    windows.insert(layer.window_size);
    sinks.insert(layer.sinks);
    all_turn = all_turn && layer.rotary;
    if (layer.chunk_size > 0) flags.note("Megatron-LM has no chunked attention (model.layers)");
    if (layer.rope_theta > 0) {
      flags.note("Megatron-LM has one rotary base for all layers (model.layers[].rope_theta)");
    }
  }
  const bool some_see_all = windows.erase(0) > 0;
  if (windows.size() > 1) flags.note("Megatron-LM has one window for all layers (model.layers)");
  if (windows.size() == 1) {
    flags.flag("window-size", fmt::format("'({},0)'", *windows.begin() - 1));
    if (some_see_all) {
      flags.flag("window-attn-skip-freq", list_of_layers(model, [](const LayerSpec& layer) {
                   return layer.window_size > 0;
                 }));
    }
  }
  if (!all_turn) {
    flags.flag("no-rope-freq",
               list_of_layers(model, [](const LayerSpec& layer) { return !layer.rotary; }));
  }
  if (sinks.size() > 1) flags.note("Megatron-LM has sinks in all layers or none (model.layers)");
  if (sinks.size() == 1 && *sinks.begin()) flags.flag("softmax-type", "learnable");
}

void add_attention(const ModelSpec& model, Flags& flags) {
  if (model.query_key_norm == QueryKeyNorm::per_head) flags.flag("qk-layernorm");
  if (model.query_key_norm == QueryKeyNorm::weightless) flags.flag("qk-l2-norm");
  if (model.query_key_norm == QueryKeyNorm::whole) {
    flags.note("Megatron-LM norms each head alone (query_key_norm whole)");
  }
  if (model.attention_output_gate) flags.flag("attention-output-gate");
  if (model.attention_scale > 0)
    flags.flag("softmax-scale", fmt::format("{}", model.attention_scale));
  if (model.attention_logit_cap > 0 || model.final_logit_cap > 0) {
    flags.note("Megatron-LM caps neither scores nor logits (attention_logit_cap, final_logit_cap)");
  }
  add_layers(model, flags);
}

void add_model(const ModelSpec& model, Flags& flags) {
  flags.flag(megatron::kLayers, model.num_layers);
  flags.flag(megatron::kHidden, model.hidden_size);
  flags.flag(megatron::kFfn, model.ffn_hidden_size);
  flags.flag(megatron::kHeads, model.num_attention_heads);
  if (model.num_query_groups != model.num_attention_heads) {
    flags.flag("group-query-attention");
    flags.flag(megatron::kGroups, model.num_query_groups);
  }
  if (model.head_dim * model.num_attention_heads != model.hidden_size) {
    flags.flag(megatron::kHeadDim, model.head_dim);
  }
  add_attention(model, flags);
  if (model.family == ModelFamily::llama && model.query_key_value_bias) flags.flag("add-qkv-bias");
  if (model.family == ModelFamily::llama && model.attention_out_bias) {
    flags.note("Megatron-LM has no bias of attention's output (attention_out_bias) alone");
  }
  flags.flag(megatron::kLength, model.seq_len);
  flags.flag(megatron::kPositions, model.max_position_embeddings);
  if (model.family == ModelFamily::llama) {
    flags.flag("swiglu");
    flags.flag("normalization", "RMSNorm");
    flags.flag("position-embedding-type", "rope");
    flags.flag(megatron::kRotaryBase, static_cast<std::int64_t>(model.rope_theta));
    if (model.rotary_dim != model.head_dim) {
      flags.flag("rotary-percent", fmt::format("{}", static_cast<double>(model.rotary_dim) /
                                                         static_cast<double>(model.head_dim)));
    }
    flags.flag("disable-bias-linear");
  }
  if (!model.tied_embeddings) flags.flag(megatron::kUntied);
}

// The router. Its weights are not normalised, in softmax where they are those of all experts, in
// sigmoids where there is but one.
void add_router(const ModelSpec& model, Flags& flags) {
  const bool is_sigmoid = model.moe_router_score == RouterScore::sigmoid;
  const bool is_alone = model.num_experts_per_token == 1;
  if (is_sigmoid) flags.flag("moe-router-score-function", "sigmoid");
  if (!is_sigmoid && !model.moe_router_normalised) flags.flag("moe-router-pre-softmax");
  if (is_sigmoid ? model.moe_router_normalised == is_alone
                 : model.moe_router_normalised && is_alone) {
    flags.note(
        fmt::format("Megatron-LM has no moe_router_normalised {} of {} with {} expert{} per "
                    "token",
                    model.moe_router_normalised, to_string(model.moe_router_score),
                    model.num_experts_per_token, is_alone ? "" : "s"));
  }
  if (model.moe_router_scaling_factor != 1.0) {
    flags.flag("moe-router-topk-scaling-factor", model.moe_router_scaling_factor);
  }
  if (model.moe_router_bias_update_rate > 0.0 && is_sigmoid) {
    flags.flag("moe-router-enable-expert-bias");
    flags.flag("moe-router-bias-update-rate", model.moe_router_bias_update_rate);
  } else if (model.moe_router_bias_update_rate > 0.0) {
    flags.note(
        "Megatron-LM has biases of the choice (moe_router_bias_update_rate) for sigmoids only");
  }
  if (model.moe_router_num_groups > 1) {
    flags.flag("moe-router-num-groups", model.moe_router_num_groups);
    flags.flag("moe-router-group-topk", model.moe_router_group_topk);
    if (model.moe_router_group_score == GroupScore::maximum &&
        model.num_experts_per_token > model.moe_router_group_topk) {
      flags.note(
          "Megatron-LM has no moe_router_group_score maximum: it adds a group's best experts");
    }
  }
  if (model.moe_weight_on_input) flags.flag("moe-apply-probs-on-input");
  if (model.moe_z_loss_coeff > 0.0) flags.flag("moe-z-loss-coeff", model.moe_z_loss_coeff);
  if (model.moe_router_logit_bias) {
    flags.note("Megatron-LM has no trained bias of the router (moe_router_logit_bias)");
  }
}

void add_experts(const ModelSpec& model, Flags& flags) {
  if (model.num_experts == 0) return;
  flags.flag(megatron::kExperts, model.num_experts);
  flags.flag(megatron::kTopK, model.num_experts_per_token);
  flags.flag(megatron::kExpertFfn, model.moe_ffn_hidden_size);
  flags.flag("moe-grouped-gemm");
  if (model.moe_shared_ffn_hidden_size > 0) {
    flags.flag(megatron::kSharedFfn, model.moe_shared_ffn_hidden_size);
    if (model.moe_shared_gate) flags.flag("moe-shared-expert-gate");
  }
  if (model.moe_expert_bias) {
    flags.note(
        "Megatron-LM has no biases of experts (moe_expert_bias) beside layers without biases");
  }
  if (model.first_dense_layers > 0) {
    flags.flag("moe-layer-freq", fmt::format("'([0]*{}+[1]*{})'", model.first_dense_layers,
                                             model.num_layers - model.first_dense_layers));
  }
  add_router(model, flags);
}

void add_context(const ParallelismSpec& p, Flags& flags) {
  if (p.cp == 1) return;
  flags.flag(megatron::kContext, p.cp);
  const ContextAttentionRow& form = context_attention_row(p.cp_attention);
  if (form.megatron.empty()) {
    flags.note(fmt::format("Megatron-LM has no cp_attention {}", form.name));
  } else {
    flags.flag(megatron::kContextType, form.megatron);
  }
}

void add_schedule(const ParallelismSpec& p, Flags& flags) {
  if (p.pp == 1) return;
  flags.flag(megatron::kPipeline, p.pp);
  if (p.vpp > 1) flags.flag(megatron::kChunks, p.vpp);
  if (!schedule_row_of(p.schedule).megatron.empty()) return;
  const ScheduleRow& theirs = schedule_in(&ScheduleRow::megatron, p.vpp > 1);
  flags.note(fmt::format(
      "Megatron-LM has no schedule {}: these flags run {}. Plan again with --fix schedule={}",
      p.schedule, theirs.megatron, theirs.name));
}

// Buckets count parameters; without overlap there is one bucket.
void add_overlap(const ParallelismSpec& p, DType reduced, Flags& flags) {
  if (!p.overlap_grad_reduce) {
    if (p.zero_stage > 0 && p.overlap_param_gather) {
      flags.note("Megatron-LM gathers parameters early only with --overlap-grad-reduce");
    }
    return;
  }
  flags.flag(megatron::kReduceEarly);
  if (p.zero_stage > 0 && p.overlap_param_gather) flags.flag(megatron::kGatherEarly);
  if (p.zero_stage == 3) return;
  const std::int64_t bytes = size_of(reduced);
  flags.flag(megatron::kBuckets, std::max<std::int64_t>(p.bucket_bytes / bytes, 1));
  if (p.first_bucket_bytes != p.bucket_bytes) {
    flags.note(
        fmt::format("the first bucket was planned with {} bytes; Megatron-LM's are all alike",
                    p.first_bucket_bytes));
  }
}

void add_sharding(const ParallelismSpec& p, Flags& flags) {
  if (p.zero_stage == 0) return;
  flags.flag("use-distributed-optimizer");
  if (p.zero_stage >= 2) {
    flags.flag("use-megatron-fsdp");
    flags.flag("data-parallel-sharding-strategy",
               megatron::kShardedState.at(static_cast<std::size_t>(p.zero_stage)));
    flags.flag("no-gradient-accumulation-fusion");
    flags.flag("ckpt-format", "fsdp_dtensor");
  }
  if (p.dp_replicate > 1) flags.flag(megatron::kReplicas, p.dp_replicate);
}

// Muon's modes decide its cost, as a layout does.
void add_optimizer(const Scenario& scenario, Flags& flags) {
  const TrainingSpec& t = scenario.training;
  if (!t.uses_muon()) return;
  flags.flag("optimizer", kMuon);
  const std::string_view scalar =
      optimizer_rule(t.muon_scalar_optimizer).elsewhere.megatron.front();
  if (scalar.empty()) {
    flags.note("Megatron-LM's muon does not leave the rest to " + t.muon_scalar_optimizer);
  } else {
    flags.flag(megatron::kMuonScalar, scalar);
  }
  flags.flag(megatron::kMuonMomentum, t.muon.momentum);
  if (t.muon.nesterov) flags.flag(megatron::kMuonNesterov);
  flags.flag(megatron::kMuonSteps, t.muon.num_steps);
  flags.flag(megatron::kMuonScale, to_string(t.muon.scale));
  flags.flag(megatron::kMuonExtraScale, t.muon.extra_scale_factor);
  flags.flag(megatron::kMuonTensor, to_string(t.muon.tensor_parallel));
  flags.flag(megatron::kMuonCoefficients, to_string(t.muon.coefficients));
  if (scenario.parallelism.zero_stage == 1 && t.muon.data_parallel == MuonDataParallel::slices) {
    flags.note(
        "Megatron-LM's muon has no slices: with --use-distributed-optimizer each matrix has one "
        "owner. Plan again with --fix muon_dp_mode=layer_wise");
  }
}

void add_recompute(const TrainingSpec& training, Flags& flags) {
  if (training.recompute == Recompute::none) return;
  flags.flag(megatron::kRecompute, to_string(training.recompute));
  if (training.recompute == Recompute::full) {
    flags.flag("recompute-method", "uniform");
    flags.flag("recompute-num-layers", 1);
    return;
  }
  flags.flag("recompute-modules", "layernorm");
  flags.note(
      "selective recomputing was planned with outputs of norms and activation functions; "
      "Megatron-LM has no module for the latter alone (mlp recomputes all of it)");
}

class Config {
 public:
  void note(const std::string& words) { notes_ += "# " + words + "\n"; }
  void begin(const char* name) { body_ += fmt::format("{}(\n", name); }
  template <class Value>
  void set(const char* name, const Value& value) {
    body_ += fmt::format("    {}={},\n", name, value);
  }
  void text(const char* name, std::string_view value) {
    body_ += fmt::format("    {}=\"{}\",\n", name, value);
  }
  void end() { body_ += ")\n"; }
  [[nodiscard]] std::string all() const { return notes_ + body_; }

 private:
  std::string notes_;
  std::string body_;
};

void add_pipeline(const Scenario& scenario, Config& config) {
  const ParallelismSpec& p = scenario.parallelism;
  if (p.pp == 1) return;
  config.set(torchtitan::kPipeline.theirs, p.pp);
  config.set(torchtitan::kMicrobatches, scenario.training.num_microbatches);
  const std::string_view name = schedule_row_of(p.schedule).torchtitan;
  if (name.empty()) {
    config.text(torchtitan::kSchedule.theirs, "PipelineScheduleMulti");
    config.text(torchtitan::kScheduleFile.theirs, "schedule.csv");
    config.note("PyTorch has no schedule " + p.schedule +
                ": write it with `shardsim schedule` as schedule.csv");
  } else {
    config.text(torchtitan::kSchedule.theirs, name);
  }
  const std::int64_t stages = p.pp * p.vpp;
  if (scenario.model.num_layers % stages == 0) {
    config.set(torchtitan::kLayersPerStage, scenario.model.num_layers / stages);
  }
  config.set("pipeline_parallel_first_stage_less_layers", 0);
  config.set("pipeline_parallel_last_stage_less_layers", 0);
}

void add_data_parallel(const ParallelismSpec& p, Config& config) {
  const bool shards = p.zero_stage > 0;
  config.set(torchtitan::kReplicas.theirs, shards ? p.dp_replicate : p.data_parallel_size());
  config.set(torchtitan::kShards.theirs, shards ? p.dp_shard : 1);
  if (!shards) return;
  config.text(torchtitan::kReshard.theirs, p.zero_stage == 3 ? "always" : "never");
  if (!p.sync_every_microbatch) config.set("fsdp_defer_gradient_reduction", "True");
  if (p.zero_stage < 3) {
    config.note(
        fmt::format("zero_stage {} has whole parameters at all times; torchtitan shards them "
                    "(FSDP) and with \"never\" gathers them once per step",
                    p.zero_stage));
  }
}

}  // namespace

std::string emit_megatron(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  Flags flags;
  flags.note("Megatron-LM: layout only; data, tokenizer, learning rate and checkpoints are yours");
  add_model(scenario.model, flags);
  add_experts(scenario.model, flags);
  flags.flag(megatron::kTensor, p.tp);
  if (p.tp > 1 && p.sequence_parallel) flags.flag(megatron::kSequence);
  add_schedule(p, flags);
  add_context(p, flags);
  if (scenario.model.num_experts > 0) {
    flags.flag(megatron::kExpertParallel, p.ep);
    flags.flag("expert-tensor-parallel-size", 1);
  }
  add_sharding(p, flags);
  add_overlap(p, t.grad_reduce_dtype, flags);
  flags.flag(megatron::kMicroBatch, t.micro_batch_size);
  flags.flag(megatron::kGlobalBatch, t.global_batch_size);
  add_optimizer(scenario, flags);
  add_recompute(t, flags);
  if (t.precision == DType::bf16) flags.flag("bf16");
  if (t.precision == DType::fp16) flags.flag("fp16");
  if (t.precision == DType::bf16 && t.grad_reduce_dtype == DType::bf16) {
    flags.flag("grad-reduce-in-bf16");
  }
  const std::int64_t nodes = scenario.system.nodes;
  return flags.text(fmt::format("torchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py", nodes,
                                scenario.system.gpus_per_node));
}

std::string emit_torchtitan(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  Config config;
  config.note("torchtitan: layout only; put these into your training configuration");
  config.begin("ParallelismConfig");
  add_data_parallel(p, config);
  config.set(torchtitan::kTensor.theirs, p.tp);
  if (p.tp > 1) config.set(torchtitan::kSequence.theirs, p.sequence_parallel ? "True" : "False");
  add_pipeline(scenario, config);
  if (p.cp > 1) {
    config.set(torchtitan::kContext.theirs, p.cp);
    config.note(std::string("context parallelism was planned as cp_attention ") +
                to_string(p.cp_attention) +
                ", with equal causal work on every rank: choose a load balancer");
  }
  if (p.ep > 1) config.set(torchtitan::kExperts.theirs, p.ep);
  if (p.ep > 1 && p.ep < p.tp) config.note("torchtitan wants ep to be at least tp");
  config.end();
  config.begin("TrainingConfig");
  config.set(torchtitan::kLength.theirs, scenario.model.seq_len);
  config.set(torchtitan::kLocal.theirs, t.micro_batch_size * scenario.model.seq_len);
  config.set(torchtitan::kGlobal.theirs, t.global_batch_size * scenario.model.seq_len);
  if (t.precision == DType::bf16) config.text(torchtitan::kPrecision.theirs, "bfloat16");
  if (t.grad_reduce_dtype == DType::bf16) config.text(torchtitan::kReduced.theirs, "bfloat16");
  config.end();
  if (t.recompute != Recompute::none) {
    config.note(std::string("activation checkpointing: ") + to_string(t.recompute) +
                " (a configuration class of its own in torchtitan)");
  }
  return config.all();
}

const std::vector<std::string>& emitted_frameworks() {
  static const std::vector<std::string> kNames = {"megatron", "torchtitan", "deepspeed"};
  return kNames;
}

void require_framework(std::string_view name) {
  const std::vector<std::string>& names = emitted_frameworks();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = nearest(std::string(name), names);
  throw UsageError("E1327", "there is no framework \"" + std::string(name) + "\"",
                   (near.empty() ? "" : "did you mean \"" + near + "\"? ") +
                       ("there are " + one_of_list(names)));
}

std::string emit_for(std::string_view framework, const Scenario& scenario) {
  if (framework == "megatron") return emit_megatron(scenario);
  return framework == "torchtitan" ? emit_torchtitan(scenario) : emit_deepspeed(scenario);
}

}  // namespace shardsim
