#include "scenarios/formats/emit.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/model/make_model.hpp"
#include "strategies/optimizer/rules.hpp"

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/formats/megatron_graphs.hpp"
#include "scenarios/formats/megatron_offload.hpp"
#include "scenarios/formats/torchtitan.hpp"
#include "scenarios/stage_places.hpp"
#include "scenarios/suggest.hpp"

// Flags of Megatron-LM's pretrain_gpt.py, as megatron/training/arguments.py has them, and fields of
// torchtitan's ParallelismConfig and TrainingConfig (torchtitan/config), which since 2026 are set
// in Python. Its models are those of torchtitan/models in pytorch/torchtitan @b5bcd76. DeepSpeed's
// file is written beside its importer.
namespace shardsim {

namespace {

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

// Stages of several sizes: E is the embedding, t a layer, m a depth of multi-token prediction, and
// L the loss. Chunks follow from their number.
std::string stages_of(const ParallelismSpec& p, std::int64_t depths) {
  std::vector<std::string> stages;
  for (const std::int64_t layers : p.stage_layers) {
    stages.push_back(layers > 1 ? fmt::format("t*{}", layers) : std::string(layers == 1, 't'));
  }
  stages.front().insert(0, "E");
  stages.back() += std::string(static_cast<std::size_t>(depths), 'm') + "L";
  return fmt::format("'{}'", fmt::join(stages, "|"));
}

// Chunks are stages between bars, where layers are letters.
void add_schedule(const Scenario& scenario, bool has_bars, Flags& flags) {
  const ParallelismSpec& p = scenario.parallelism;
  if (schedule_row_of(p.schedule).is_for_experts) {
    flags.flag(megatron::kCombined);
    if ((p.pp > 1 && p.vpp == 1) || p.ep == 1) {
      flags.note("Megatron-LM wants vpp above 1 with stages, and ep above 1, for this overlap");
    }
    if (scenario.training.recompute == Recompute::full) {
      flags.note("Megatron-LM refuses this overlap with full recomputation");
    }
    if (p.delay_weight_gradients && takes_turns(scenario)) flags.flag(megatron::kDelay);
  }
  if (p.pp == 1) return;
  flags.flag(megatron::kPipeline, p.pp);
  const std::vector<std::int64_t>& layers = p.stage_layers;
  const bool is_even = std::equal(layers.begin() + 1, layers.end(), layers.begin());
  if (!is_even && !has_bars) {
    flags.flag(megatron::kStages, stages_of(p, scenario.model.mtp_num_layers));
  } else if (p.vpp > 1 && !has_bars) {
    flags.flag(megatron::kChunks, p.vpp);
  }
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

// Whether a model has what a module of theirs recomputes; Megatron-LM refuses some that it has not.
bool has_module(const ModelSpec& model, RecomputeModule module) {
  switch (module) {
    case RecomputeModule::activation:  // No word of theirs.
      return false;
    case RecomputeModule::mla_up_proj:
      return model.is_latent();
    case RecomputeModule::moe_act:
    case RecomputeModule::moe:
      return model.layers_with_experts() > 0;
    case RecomputeModule::shared_experts:
      return model.layers_with_experts() > 0 && model.moe_shared_ffn_hidden_size > 0;
    default:
      return true;
  }
}

void add_modules(const Scenario& scenario, Flags& flags) {
  const RecomputeModules modules = recompute_modules_of(scenario.training.recompute_modules);
  std::vector<std::string> theirs;
  const std::span<const char* const> names = recompute_module_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    if (modules.has(module) && has_module(scenario.model, module)) theirs.emplace_back(names[i]);
  }
  if (modules.has(RecomputeModule::activation)) {
    flags.note(
        "selective recomputing was planned with outputs of activation functions; Megatron-LM has "
        "no module for those of dense MLPs alone (mlp recomputes all of it)");
  }
  if (modules.has(RecomputeModule::layernorm)) {
    flags.note(
        "all norms ahead of branches were planned as recomputed; Transformer Engine fuses most of "
        "them with the layer behind, and Megatron-LM then drops those ahead of experts alone");
  }
  if (theirs.empty()) return;
  flags.flag(megatron::kRecompute, to_string(Recompute::selective));
  flags.flag(megatron::kModules, fmt::format("{}", fmt::join(theirs, " ")));
}

void add_recompute(const Scenario& scenario, Flags& flags) {
  const Recompute recompute = scenario.training.recompute;
  if (recompute == Recompute::none) return;
  if (recompute == Recompute::selective) {
    add_modules(scenario, flags);
    return;
  }
  flags.flag(megatron::kRecompute, to_string(recompute));
  flags.flag("recompute-method", "uniform");
  flags.flag("recompute-num-layers", 1);
}

class Config : public Remarks {
 public:
  void begin(const char* name) { body_ += fmt::format("{}(\n", name); }
  template <class Value>
  void set(const char* name, const Value& value) {
    body_ += fmt::format("    {}={},\n", name, value);
  }
  void text(const char* name, std::string_view value) {
    body_ += fmt::format("    {}=\"{}\",\n", name, value);
  }
  void end() { body_ += ")\n"; }
  [[nodiscard]] Emission all() const { return ahead_of(body_); }

 private:
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
  if (p.delay_weight_gradients && takes_turns(scenario)) {
    config.note("PyTorch's pipelining computes weight gradients of a block at once");
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

std::string copied_heads(const Scenario& scenario) {
  std::set<std::int64_t, std::greater<>> numbers;
  const std::vector<HeadOptions> kinds = scenario.model.kinds_of_heads();
  for (const HeadOptions& heads : kinds) {
    if (heads.num_query_groups > 0 && heads.num_query_groups < scenario.parallelism.tp) {
      numbers.insert(heads.num_query_groups);
    }
  }
  if (numbers.empty()) return {};
  return fmt::format("{}{}", fmt::join(numbers, " and "),
                     kinds.size() > 1 ? " in some layers" : "");
}

Emission emit_megatron(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  Flags flags;
  flags.note("Megatron-LM: layout only; data, tokenizer, learning rate and checkpoints are yours");
  add_model(scenario.model, flags);
  add_experts(scenario.model, flags);
  add_layers(scenario, flags);
  flags.flag(megatron::kTensor, p.tp);
  if (!copied_heads(scenario).empty()) {
    flags.note(fmt::format(
        "Megatron-LM gathers queries, keys and values in each layer where tp ({}) is more than its "
        "num_query_groups; the plan copies heads of keys and values to ranks",
        p.tp));
  }
  if (p.tp > 1 && p.sequence_parallel) flags.flag(megatron::kSequence);
  if (p.overlaps_tensor_parallel()) flags.flag(megatron::kTensorOverlap);
  const bool lettered = is_lettered(scenario.model);
  add_schedule(scenario, lettered, flags);
  add_context(p, flags);
  if (scenario.model.num_experts > 0) {
    flags.flag(megatron::kExpertParallel, p.ep);
    flags.flag(megatron::kExpertTensor, p.etp);
    const bool per_node = p.expert_dispatch == ExpertDispatch::per_node && p.ep > 1;
    flags.flag("moe-token-dispatcher-type", per_node ? "flex" : "alltoall");
    if (per_node) add_payload(p, flags);
  }
  add_sharding(p, flags);
  add_overlap(p, t.grad_reduce_dtype, flags);
  flags.flag(megatron::kMicroBatch, t.micro_batch_size);
  flags.flag(megatron::kGlobalBatch, t.global_batch_size);
  add_optimizer(scenario, flags);
  add_recompute(scenario, flags);
  add_offload(scenario, flags);
  add_graphs(scenario, flags);
  // Megatron-LM drops a tenth of both if it is not told otherwise.
  flags.flag("hidden-dropout", t.hidden_dropout);
  flags.flag("attention-dropout", 0.0);
  if (t.dtype() == DType::bf16) flags.flag("bf16");
  if (t.dtype() == DType::fp16) flags.flag("fp16");
  add_low_precision(scenario, flags);
  add_state_dtype(scenario, flags);
  if (t.dtype() == DType::bf16 && t.grad_reduce_dtype == DType::bf16) {
    flags.flag("grad-reduce-in-bf16");
  }
  const std::int64_t nodes = scenario.system.nodes;
  return flags.all(fmt::format("torchrun --nnodes {} --nproc-per-node {} pretrain_{}.py", nodes,
                               scenario.system.gpus_per_node, lettered ? "hybrid" : "gpt"));
}

Emission emit_torchtitan(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  Config config;
  config.note("torchtitan: layout only; put these into your training configuration");
  for (const std::string& words : unlike_torchtitan(scenario)) config.lacks(words);
  config.begin("ParallelismConfig");
  add_data_parallel(p, config);
  config.set(torchtitan::kTensor.theirs, p.tp);
  if (p.tp > 1) config.set(torchtitan::kSequence.theirs, p.sequence_parallel ? "True" : "False");
  if (p.overlaps_tensor_parallel()) config.set(torchtitan::kTensorOverlap.theirs, "True");
  add_pipeline(scenario, config);
  if (p.cp > 1) {
    config.set(torchtitan::kContext.theirs, p.cp);
    config.note(std::string("context parallelism was planned as cp_attention ") +
                to_string(p.cp_attention) +
                ", with equal causal work on every rank: choose a load balancer");
  }
  if (p.ep > 1) config.set(torchtitan::kExperts.theirs, p.ep);
  if (p.ep > 1 && p.ep < p.tp) config.note("torchtitan wants ep to be at least tp");
  if (p.ep > 1 && p.expert_dispatch == ExpertDispatch::per_node) {
    config.note("expert_dispatch per_node was planned: choose torchtitan's DeepEP backend");
  }
  if (p.pp == 1 && p.schedule != "none") {
    config.note("torchtitan has no schedule " + p.schedule + " on one stage");
  }
  config.end();
  config.begin("TrainingConfig");
  config.set(torchtitan::kLength.theirs, scenario.model.seq_len);
  config.set(torchtitan::kLocal.theirs, t.micro_batch_size * scenario.model.seq_len);
  config.set(torchtitan::kGlobal.theirs, t.global_batch_size * scenario.model.seq_len);
  for (const std::string& part : unsaid_memory(scenario)) config.lacks(part);
  if (t.dtype() == DType::bf16) config.text(torchtitan::kPrecision.theirs, "bfloat16");
  if (t.grad_reduce_dtype == DType::bf16) config.text(torchtitan::kReduced.theirs, "bfloat16");
  config.end();
  if (t.recompute == Recompute::full) {
    config.note("activation checkpointing: full (a configuration class of its own in torchtitan)");
  } else if (t.recompute == Recompute::selective) {
    config.note("recomputing was planned for modules (" + t.recompute_modules +
                "); torchtitan's selective activation checkpointing goes by operations");
  }
  if (t.uses_muon()) {
    config.note("training.optimizer muon is a configuration class of its own in torchtitan");
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

Emission emit_for(std::string_view framework, const Scenario& scenario) {
  if (framework == "megatron") return emit_megatron(scenario);
  return framework == "torchtitan" ? emit_torchtitan(scenario) : emit_deepspeed(scenario);
}

const std::string& require_said(const Emission& emission, std::string_view framework,
                                bool approximate) {
  if (emission.unsaid.empty() || approximate) return emission.text;
  throw UsageError(
      "E1328", fmt::format("{} cannot say: {}", framework, fmt::join(emission.unsaid, "; ")),
      "--approximate prints the nearest settings, with these as notes: they train another model "
      "unless you write code for each");
}

}  // namespace shardsim
