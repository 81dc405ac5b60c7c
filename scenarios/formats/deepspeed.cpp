#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/model/make_model.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/formats/emit.hpp"
#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

// The configuration file of DeepSpeed: imported and emitted.
namespace shardsim {

namespace {

// Names of keys, with ours where a key is that of one field.
constexpr NamePair kDsBatch = {"train_batch_size", "training.global_batch_size"};
constexpr NamePair kDsMicro = {"train_micro_batch_size_per_gpu", "training.micro_batch_size"};
constexpr NamePair kDsContext = {"sequence_parallel_size", "parallelism.cp"};
constexpr NamePair kDsTensor = {"autotp_size", "parallelism.tp"};  // In tensor_parallel.
constexpr NamePair kDsWire = {"communication_data_type", "training.grad_reduce_dtype"};
constexpr const char* kDsAccumulation = "gradient_accumulation_steps";
constexpr const char* kDsTensorTable = "tensor_parallel";
constexpr const char* kDsZeroTable = "zero_optimization";
// In zero_optimization.
constexpr NamePair kDsStage = {"stage", "parallelism.zero_stage"};
constexpr NamePair kDsOverlap = {"overlap_comm", "parallelism.overlap_grad_reduce"};
constexpr NamePair kDsBuckets = {"reduce_bucket_size", "parallelism.bucket_bytes"};
constexpr NamePair kDsOffloadOptimizer = {"offload_optimizer", "parallelism.offload_optimizer"};
constexpr NamePair kDsOffloadParameters = {"offload_param", "parallelism.offload_parameters"};

std::int64_t import_ds_degrees(ForeignObject& config, std::int64_t gpus, Import& import) {
  ForeignObject tensor = config.inner(kDsTensorTable);
  const std::int64_t tp = tensor.integer(kDsTensor.theirs, kForeignDegree).value_or(1);
  if (tp > 1) import.take(tensor.at(kDsTensor.theirs, std::to_string(tp)), kDsTensor.ours, tp);
  const std::int64_t sequence = config.integer(kDsContext.theirs, kForeignDegree).value_or(1);
  if (sequence > 1) {
    import.take({kDsContext.theirs, std::to_string(sequence)}, kDsContext.ours, sequence);
    import.derive({kDsContext.theirs, std::to_string(sequence)}, "parallelism.cp_attention",
                  std::string(context_attention_in(&ContextAttentionRow::deepspeed).name));
  }
  if (tp < 1 || sequence < 1 || gpus % (tp * sequence) != 0) {
    config.refuse(
        "E1364", tp > 1 ? kDsTensorTable : kDsContext.theirs,
        fmt::format("{} x {} ranks of tensor and sequence parallelism do not divide {} GPUs", tp,
                    sequence, gpus),
        "give their number with --gpus");
  }
  return gpus / (tp * sequence);
}

// Two of three imply the third; three must agree.
void import_ds_batch(ForeignObject& config, std::int64_t data, Import& import) {
  std::optional<std::int64_t> batch = config.integer(kDsBatch.theirs, kForeignSize);
  std::optional<std::int64_t> micro = config.integer(kDsMicro.theirs, kForeignDegree);
  const std::optional<std::int64_t> steps = config.integer(kDsAccumulation, kForeignDegree);
  for (const char* key : {kDsBatch.theirs, kDsMicro.theirs, kDsAccumulation}) {
    if (config.is_auto(key))
      import.warn({key, "auto"}, "the launching program fills it in: check it");
  }
  if (batch && micro && steps && *batch != *micro * *steps * data) {
    config.refuse(
        "E1364", kDsBatch.theirs,
        fmt::format("train_batch_size is {}, but {} per GPU x {} steps x {} data-parallel "
                    "ranks are {}",
                    *batch, *micro, *steps, data, *micro * *steps * data),
        fmt::format("correct one of them, or give the number of GPUs with --gpus"));
  }
  if (micro) {
    import.take(config.at(kDsMicro.theirs), kDsMicro.ours, *micro);
  } else if (batch && *batch % (steps.value_or(1) * data) == 0) {
    micro = *batch / (steps.value_or(1) * data);
    import.derive(config.at(kDsMicro.theirs), kDsMicro.ours, *micro,
                  "train_batch_size over steps and ranks");
  } else {
    micro = 1;
    import.assume(kDsMicro.theirs, kDsMicro.ours, *micro, "the file does not say it");
  }
  if (batch) {
    import.take(config.at(kDsBatch.theirs), kDsBatch.ours, *batch);
  } else {
    import.derive(config.at(kDsAccumulation), kDsBatch.ours, *micro * steps.value_or(1) * data,
                  fmt::format("{} x {} x {} data-parallel ranks", *micro, steps.value_or(1), data));
  }
}

void write_loss_scale(ForeignObject& fp16, Import& import) {
  const double scale = fp16.number("loss_scale").value_or(0.0);
  if (scale > 0.0) {
    import.take(fp16.at("loss_scale"), "training.loss_scale", scale);
    import.derive(fp16.at("loss_scale"), "training.loss_scaling", std::string("static"));
    return;
  }
  if (const auto power = fp16.integer("initial_scale_power", kForeignCount)) {
    constexpr std::int64_t kLargest = 126;
    import.derive(fp16.at("initial_scale_power", std::to_string(*power)), "training.loss_scale",
                  std::ldexp(1.0, static_cast<int>(std::clamp<std::int64_t>(*power, 0, kLargest))));
  }
  for (const NamePair& row : {NamePair{"loss_scale_window", "training.loss_scale_growth_interval"},
                              NamePair{"hysteresis", "training.loss_scale_hysteresis"}}) {
    const auto value = fp16.integer(row.theirs, kForeignSize);
    if (value) import.take(fp16.at(row.theirs, std::to_string(*value)), row.ours, *value);
  }
}

// "offload_optimizer": {"device": "cpu"}
void write_offload(ForeignObject& zero, const NamePair& part, Import& import) {
  ForeignObject offload = zero.inner(part.theirs);
  const std::string device = offload.text("device").value_or("none");
  if (device == "cpu") {
    import.take(offload.at("device", device), part.ours, true);
  } else if (device != "none") {
    import.warn(offload.at("device", device), "only host memory is modelled: nothing is offloaded");
  }
}

void write_buckets(ForeignObject& zero, std::int64_t stage, Import& import) {
  const std::int64_t element = import.has("training.precision") ? 2 : 4;
  if (stage > 2) return;
  const auto elements = zero.integer(kDsBuckets.theirs, kForeignNumber);
  if (elements && *elements > 0) {
    const ForeignValue theirs = zero.at(kDsBuckets.theirs);
    import.derive(theirs, kDsBuckets.ours, *elements * element,
                  fmt::format("elements of {} bytes", element));
    import.derive(theirs, "parallelism.first_bucket_bytes", *elements * element,
                  "all buckets alike");
  }
}

void write_adam(ForeignObject& parameters, Import& import) {
  for (const NamePair& row :
       {NamePair{"lr", "training.learning_rate"}, NamePair{"eps", "training.epsilon"},
        NamePair{"weight_decay", "training.weight_decay"}}) {
    if (!take_number(parameters, row, import) && parameters.is_auto(row.theirs)) {
      import.warn(parameters.at(row.theirs, "auto"), "left at the default: it costs nothing");
    }
  }
  const JsonValue* betas = parameters.find("betas");
  if (betas == nullptr || !betas->is_array() || betas->array().size() != 2) return;
  const char* paths[] = {"training.beta1", "training.beta2"};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* beta = std::get_if<double>(&betas->array()[i].data);
    if (beta != nullptr) {
      import.take({parameters.name_of("betas"), fmt::format("{:g}", *beta)}, paths[i], *beta);
    }
  }
}

// Writes bf16, fp16 and the loss scale.
void write_ds_precision(ForeignObject& config, Import& import) {
  ForeignObject bf16 = config.inner(config.has("bfloat16") ? "bfloat16" : "bf16");
  ForeignObject fp16 = config.inner("fp16");
  if (bf16.truth("enabled").value_or(false)) {
    import.take(bf16.at("enabled", "true"), "training.precision", std::string("bf16"));
  } else if (fp16.truth("enabled").value_or(false)) {
    import.take(fp16.at("enabled", "true"), "training.precision", std::string("fp16"));
    write_loss_scale(fp16, import);
  } else if (bf16.is_auto("enabled") || fp16.is_auto("enabled")) {
    import.assume("bf16.enabled, fp16.enabled", "training.precision", std::string("bf16"),
                  "\"auto\" is filled in by the launching program");
  } else {
    import.derive({"bf16, fp16", "(not enabled)"}, "training.precision", std::string("fp32"));
  }
  const auto wire = config.text(kDsWire.theirs);
  if (wire) {
    const std::string ours = *wire == "fp32"                       ? "fp32"
                             : *wire == "bfp16" || *wire == "bf16" ? "bf16"
                                                                   : "fp16";
    import.take({kDsWire.theirs, *wire}, kDsWire.ours, ours);
  }
}

// Writes zero_optimization: stage, offload, buckets, hpZ. REQUIRES: the precision is written.
void write_ds_sharding(ForeignObject& config, Import& import) {
  ForeignObject zero = config.inner(kDsZeroTable);
  const std::int64_t stage = zero.integer(kDsStage.theirs, kForeignCount).value_or(0);
  import.take(zero.at(kDsStage.theirs), kDsStage.ours, stage);
  if (stage > 0) write_offload(zero, kDsOffloadOptimizer, import);
  if (stage == 3) write_offload(zero, kDsOffloadParameters, import);
  // DeepSpeed's own default.
  const bool overlap = zero.truth(kDsOverlap.theirs).value_or(stage == 3);
  import.derive(zero.at(kDsOverlap.theirs), kDsOverlap.ours, overlap);
  write_buckets(zero, stage, import);
  if (zero.has("stage3_prefetch_bucket_size")) {
    import.ignore(zero.at("stage3_prefetch_bucket_size"),
                  "units are gathered ahead here, not elements: parallelism.prefetch_units");
  }
  const std::int64_t secondary =
      zero.integer("zero_hpz_partition_size", kForeignDegree).value_or(1);
  if (secondary > 1) {
    import.warn(zero.at("zero_hpz_partition_size", std::to_string(secondary)),
                fmt::format("hpZ is not modelled; nearest is hybrid sharding: dp_shard {} with "
                            "dp_replicate, which also replicates the optimizer's state",
                            secondary));
  }
  import.ignore_rest(zero, "not modelled");
}

// Writes optimizer, gradient_clipping, activation_checkpointing.
void write_ds_optimizer(ForeignObject& config, Import& import) {
  ForeignObject optimizer = config.inner("optimizer");
  const auto type = optimizer.text("type");
  if (type) {
    import_optimizer(optimizer.name_of("type"), *type, &OptimizerNames::deepspeed, import);
    ForeignObject parameters = optimizer.inner("params");
    write_adam(parameters, import);
  }
  const NamePair clip = {"gradient_clipping", "training.max_grad_norm"};
  if (!take_number(config, clip, import) && config.is_auto(clip.theirs)) {
    import.warn({"gradient_clipping", "auto"}, "left at 0: a norm costs a little");
  }
  if (config.has("activation_checkpointing")) {
    (void)config.inner("activation_checkpointing");
    import.warn({"activation_checkpointing", "{...}"},
                "it only says how: set training.recompute to full if the model asks for it");
  }
}

// Splits of a model that DeepSpeed's code does not bear. AutoTP splits linear layers and nothing
// else, each in equal parts or by one number of key and value heads:
// deepspeed/module_inject/auto_tp.py and tp_shard.py. A MoE layer's input is what its gate reads
// and what it sends: deepspeed/moe/layer.py. Read in deepspeedai/DeepSpeed @0ad32ca and @639460a.
std::vector<std::string> unsaid_splits(const Scenario& scenario) {
  const ModelSpec& model = scenario.model;
  std::vector<std::string> unsaid = unsaid_memory(scenario);
  if (scenario.parallelism.ep > 1 && model.moe_latent_size > 0) {
    unsaid.emplace_back(
        "DeepSpeed's MoE layer sends what its gate reads: hidden_size for each token, not "
        "moe_latent_size: plan again with --fix ep=1");
  }
  if (scenario.parallelism.tp == 1) return unsaid;
  if (has_unlike_heads(model)) {
    unsaid.emplace_back(
        "AutoTP splits by one number of key and value heads in all layers "
        "(model.layers[].num_query_groups): plan again with --fix tp=1");
  }
  if (mixes_by_mamba(model)) {
    unsaid.emplace_back(
        "AutoTP splits Mamba-2's projection into equal parts, not by heads, and its convolution "
        "not at all: plan again with --fix tp=1");
  }
  if (model.layers_mixed_by(Mixer::delta_net) > 0) {
    unsaid.emplace_back(
        "AutoTP splits gated DeltaNet's projections into equal parts, not by heads, and its "
        "convolution and decays not at all: plan again with --fix tp=1");
  }
  if (has_sinks(model)) {
    unsaid.emplace_back(
        "AutoTP splits linear layers, and sinks (model.layers[].sinks) are none: plan again with "
        "--fix tp=1");
  }
  if (model.query_key_norm == QueryKeyNorm::whole) {
    unsaid.emplace_back(
        "AutoTP splits linear layers, and a norm of whole queries and keys (query_key_norm) is "
        "none: plan again with --fix tp=1");
  }
  return unsaid;
}

// Settings that DeepSpeed cannot express, and parts of the model, which the file does not name.
// JSON has no comments: they are in a key that it does not read.
std::vector<std::string> notes_of(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  std::vector<std::string> notes;
  if (p.pp > 1) {
    notes.push_back(fmt::format("pp {}: give PipelineModule num_stages={}", p.pp, p.pp));
    if (const auto theirs = schedule_in(&ScheduleRow::deepspeed).name; p.schedule != theirs) {
      notes.push_back(
          fmt::format("DeepSpeed's pipeline runs {0}, not {1}: plan again with --fix schedule={0}",
                      theirs, p.schedule));
    }
    if (p.zero_stage > 1) {
      notes.push_back(
          "DeepSpeed's pipeline takes zero stages 0 and 1 only: plan again with --fix "
          "zero_stage=0,1");
    }
  }
  for (const auto& parts : {parts_with_own_code(scenario.model), parts_of_today(scenario.model)}) {
    for (const std::string& part : parts) {
      notes.push_back("DeepSpeed has no models of its own: yours was planned with " + part);
    }
  }
  if (scenario.training.uses_muon()) {
    notes.emplace_back("training.optimizer muon: give DeepSpeed an optimizer that is it");
  }
  if (p.tp > 1 && p.sequence_parallel) {
    notes.emplace_back("sequence_parallel: AutoTP does not split the tokens between regions");
  }
  // get_shard_size() of deepspeed/module_inject/tp_shard.py.
  if (const std::string heads = copied_heads(scenario); !heads.empty()) {
    notes.push_back(
        fmt::format("the plan copies key and value heads, which are {}; AutoTP gives each to one "
                    "rank, and none to the others of tp {}",
                    heads, p.tp));
  }
  if (p.overlaps_tensor_parallel()) notes.emplace_back("AutoTP: no overlap_tensor_parallel");
  if (p.cp > 1) {
    notes.push_back(fmt::format("cp {} was planned as {}; DeepSpeed's sequence parallelism is {}",
                                p.cp, to_string(p.cp_attention),
                                context_attention_in(&ContextAttentionRow::deepspeed).name));
  }
  if (p.ep > 1) {
    const bool per_node = p.expert_dispatch == ExpertDispatch::per_node;
    notes.push_back(fmt::format("ep {}: give the MoE layer ep_size={}{}", p.ep, p.ep,
                                per_node ? "; it sends a token once to each expert" : ""));
  }
  if (p.etp > 1) {
    notes.push_back(
        fmt::format("etp {}: DeepSpeed's MoE layer cuts experts by tp ({}) or not at all: "
                    "enable_expert_tensor_parallelism",
                    p.etp, p.tp));
  }
  if (p.dp_replicate > 1 && p.zero_stage > 0 && p.zero_stage < 3) {
    notes.push_back(
        fmt::format("dp_replicate {}: DeepSpeed shards over all data-parallel ranks at "
                    "stage {}",
                    p.dp_replicate, p.zero_stage));
  }
  if (scenario.training.recompute != Recompute::none) {
    const bool is_full = scenario.training.recompute == Recompute::full;
    notes.push_back("recompute " +
                    (is_full ? std::string("full") : scenario.training.recompute_modules) +
                    ": the model's own code calls deepspeed.checkpointing");
  }
  return notes;
}

// DeepSpeed counts buckets in elements.
std::string zero_section(const ParallelismSpec& p, std::int64_t gradient_bytes) {
  std::string text = fmt::format("{{\n    \"{}\": {},\n    \"{}\": {},\n", kDsStage.theirs,
                                 p.zero_stage, kDsOverlap.theirs, p.overlap_grad_reduce);
  const auto offload = [&text](const NamePair& part) {
    text += fmt::format("    \"{}\": {{\"device\": \"cpu\"}},\n", part.theirs);
  };
  if (p.zero_stage == 3 && p.dp_replicate > 1) {
    text += fmt::format("    \"mics_shard_size\": {},\n", p.dp_shard * p.cp);
  }
  if (p.offload_optimizer) offload(kDsOffloadOptimizer);
  if (p.offload_parameters) offload(kDsOffloadParameters);
  return text +
         fmt::format("    \"{}\": {}\n  }}", kDsBuckets.theirs, p.bucket_bytes / gradient_bytes);
}

}  // namespace

void import_deepspeed(const ImportRequest& request, Import& import) {
  const std::unique_ptr<ForeignFile> file = read_foreign_json(request.files.front());
  ForeignObject config(&file->root);
  if (request.model.empty()) {
    throw UsageError("E1365", "a DeepSpeed configuration does not say which model is trained",
                     "add --model config.json (Hugging Face) or a preset: --model llama3-8b");
  }
  write_ds_precision(config, import);
  import_named_model(request.model, request.approximate, import);
  const std::int64_t gpus = import_system(request, {}, import);
  const std::int64_t data = import_ds_degrees(config, gpus, import);
  import_ds_batch(config, data, import);
  write_ds_sharding(config, import);
  write_ds_optimizer(config, import);
  import.ignore_rest(config, "says nothing about cost, or is not modelled");
}

Emission emit_deepspeed(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  std::string text = "{\n";
  const std::vector<std::string> unsaid = unsaid_splits(scenario);
  std::vector<std::string> notes = notes_of(scenario);
  notes.insert(notes.end(), unsaid.begin(), unsaid.end());
  if (!notes.empty()) {
    text +=
        fmt::format("  \"shardsim_notes\": [\n    \"{}\"\n  ],\n", fmt::join(notes, "\",\n    \""));
  }
  const auto number = [&text](const char* key, std::int64_t value) {
    text += fmt::format("  \"{}\": {},\n", key, value);
  };
  number(kDsBatch.theirs, t.global_batch_size);
  number(kDsMicro.theirs, t.micro_batch_size);
  number(kDsAccumulation, t.num_microbatches);
  if (t.dtype() == DType::bf16) text += "  \"bf16\": {\"enabled\": true},\n";
  if (t.dtype() == DType::fp16) text += "  \"fp16\": {\"enabled\": true},\n";
  text += fmt::format("  \"{}\": \"{}\",\n", kDsWire.theirs, to_string(t.grad_reduce_dtype));
  if (p.tp > 1) {
    text += fmt::format("  \"{}\": {{\"{}\": {}}},\n", kDsTensorTable, kDsTensor.theirs, p.tp);
  }
  if (p.cp > 1) number(kDsContext.theirs, p.cp);
  text += fmt::format("  \"{}\": {}\n}}\n", kDsZeroTable,
                      zero_section(p, size_of(t.grad_reduce_dtype)));
  return {text, unsaid};
}

}  // namespace shardsim
