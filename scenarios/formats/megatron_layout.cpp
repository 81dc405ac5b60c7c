#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "strategies/model/recompute.hpp"
#include "strategies/optimizer/rules.hpp"

#include "scenarios/formats/megatron.hpp"
#include "scenarios/formats/megatron_graphs.hpp"
#include "scenarios/formats/megatron_offload.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

// Whether gradients are accumulated and reduced in fp32, for any dtype of the parameters. With
// bf16, Megatron-LM does so by default.
bool reduces_in_fp32(MegatronArguments& arguments) {
  const bool told = arguments.truth("accumulate_allreduce_grads_in_fp32");
  if (!arguments.truth("bf16")) return told || !arguments.truth("fp16");
  return !arguments.truth("grad_reduce_in_bf16");
}

// A degree, 1 if it is missing.
std::int64_t import_degree(MegatronArguments& arguments, const NamePair& pair, Import& import) {
  return take_integer(arguments, pair, kForeignDegree, import).value_or(1);
}

void take_truth(const NamePair& pair, bool value, Import& import) {
  import.take({pair.theirs, value ? "True" : "False"}, pair.ours, value);
}

std::int64_t data_parallel_of(MegatronArguments& arguments, std::int64_t gpus,
                              std::int64_t model_parallel) {
  if (gpus % model_parallel != 0) {
    throw_problem("E1362", arguments.where(megatron::kPipeline.theirs),
                  fmt::format("tensor x pipeline x context parallel size is {}, which does not "
                              "divide {} GPUs",
                              model_parallel, gpus),
                  fmt::format("give their number with --gpus, such as {}", model_parallel));
  }
  const std::int64_t data = gpus / model_parallel;
  const auto told = arguments.integer("data_parallel_size", kForeignSize);
  if (told && *told != data) {
    throw_problem("E1362", arguments.where("data_parallel_size"),
                  fmt::format("data_parallel_size is {}, but {} GPUs / {} leave {}", *told, gpus,
                              model_parallel, data),
                  "leave --gpus out: the log says how many there were");
  }
  return data;
}

std::string optimizer_of(MegatronArguments& arguments) {
  const OptimizerRule& otherwise = optimizer_rule(default_optimizer());
  return arguments.text("optimizer").value_or(std::string(otherwise.elsewhere.megatron.front()));
}

// The state that is sharded over data-parallel ranks, and the number of replicas.
void import_sharding(MegatronArguments& arguments, std::int64_t data, Import& import) {
  std::int64_t stage = 0;
  std::string name = "use_distributed_optimizer";
  if (arguments.truth("use_distributed_optimizer")) stage = 1;
  // Logs say it in its place with optimizers other than Adam and SGD.
  const std::string layer_wise = "use_layer_wise_distributed_optimizer";
  if (arguments.truth(layer_wise)) {
    stage = 1;
    name = layer_wise;
  }
  if (optimizer_of(arguments) == megatron::kLayerWiseMuon) {
    stage = 1;
    name = "optimizer dist_muon";
  }
  for (const char* fsdp : {"use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp"}) {
    if (!arguments.truth(fsdp)) continue;
    const std::string strategy =
        arguments.text("data_parallel_sharding_strategy").value_or(megatron::kShardedState[3]);
    stage = strategy == megatron::kShardedState[1]   ? 1
            : strategy == megatron::kShardedState[2] ? 2
                                                     : 3;
    name = fsdp;
  }
  import.derive({name, stage > 0 ? "True" : "False"}, "parallelism.zero_stage", stage);
  const NamePair& instances = megatron::kReplicas;
  const std::int64_t replicas = arguments.integer(instances.theirs, kForeignDegree).value_or(1);
  if (replicas > 1) {
    import.take({instances.theirs, std::to_string(replicas)}, instances.ours, replicas);
  }
  import.derive({"data_parallel_size", std::to_string(data)}, "parallelism.dp_shard",
                data / replicas);
}

// Megatron-LM's buckets count parameters; without overlap there is one bucket.
void import_overlap(MegatronArguments& arguments, std::int64_t data, Import& import) {
  constexpr std::int64_t kFewest = 40'000'000;
  constexpr std::int64_t kPerRank = 1'000'000;
  constexpr std::int64_t kOneBucket = std::int64_t{1} << 40;
  const bool overlap = arguments.truth(megatron::kReduceEarly.theirs);
  take_truth(megatron::kReduceEarly, overlap, import);
  const bool gather = arguments.truth(megatron::kGatherEarly.theirs);
  if (import.integer("parallelism.zero_stage") > 0) {
    take_truth(megatron::kGatherEarly, gather, import);
  }
  const std::int64_t bytes = reduces_in_fp32(arguments) ? 4 : 2;
  const NamePair& buckets = megatron::kBuckets;
  const auto told = arguments.integer(buckets.theirs, kForeignSize);
  const std::int64_t bucket =
      overlap ? told.value_or(std::max(kFewest, kPerRank * data)) * bytes : kOneBucket;
  import.derive(arguments.at(buckets.theirs), buckets.ours, bucket,
                overlap ? fmt::format("parameters of {} bytes", bytes)
                        : std::string("one bucket, as nothing overlaps"));
  if (import.integer("parallelism.zero_stage") < 3) {
    import.derive(arguments.at(buckets.theirs), "parallelism.first_bucket_bytes", bucket,
                  "all buckets alike");
  }
}

// The last form whose name a text contains holds for it. Megatron-LM's default is its first.
void import_context(MegatronArguments& arguments, Import& import) {
  const ContextAttentionRow* form = &context_attention_in(&ContextAttentionRow::megatron);
  const std::string way =
      arguments.text(megatron::kContextType.theirs).value_or(std::string(form->megatron));
  for (const ContextAttentionRow& row : context_attention_rows()) {
    const bool is_named = !row.megatron.empty() && way.find(row.megatron) != std::string::npos;
    if (is_named) form = &row;
  }
  import.derive({megatron::kContextType.theirs, way}, megatron::kContextType.ours,
                std::string(form->name));
}

void import_batch(MegatronArguments& arguments, Import& import) {
  using megatron::kGlobalBatch;
  using megatron::kMicroBatch;
  using megatron::kReplicas;
  const auto told = arguments.integer(kMicroBatch.theirs, kForeignDegree);
  const std::int64_t micro = told.value_or(1);
  if (told) {
    import.take(arguments.at(kMicroBatch.theirs), kMicroBatch.ours, micro);
  } else {
    import.assume(kMicroBatch.theirs, kMicroBatch.ours, micro, "the file does not say it");
  }
  const std::int64_t data = import.integer("parallelism.dp_shard") *
                            (import.has(kReplicas.ours) ? import.integer(kReplicas.ours) : 1);
  const auto global = arguments.integer(kGlobalBatch.theirs, kForeignSize);
  if (global) {
    import.take(arguments.at(kGlobalBatch.theirs), kGlobalBatch.ours, *global);
  } else {
    import.derive({kGlobalBatch.theirs, "(not there)"}, kGlobalBatch.ours, micro * data,
                  "Megatron-LM's default: one microbatch per rank");
  }
  if (const auto rampup = arguments.text("rampup_batch_size")) {
    import.warn({"rampup_batch_size", *rampup}, "the batch is that after it has grown");
  }
}

// Steps are whole numbers here; Megatron-LM also writes them as 1000.0.
void take_steps(MegatronArguments& arguments, const std::string& name, double otherwise,
                const std::string& path, Import& import) {
  const double steps = arguments.number(name).value_or(otherwise);
  const bool counts = steps >= 1.0 && steps <= static_cast<double>(kForeignDegree.most);
  if (!counts || steps != std::floor(steps)) {
    throw_problem("E1361", arguments.where(name),
                  fmt::format("{} is {:g}, not {}", name, steps, kForeignDegree.words()),
                  "correct it in the file it was imported from");
  }
  import.take({name, fmt::format("{:g}", steps)}, path, static_cast<std::int64_t>(steps));
}

void import_loss_scale(MegatronArguments& arguments, Import& import) {
  const double scale = arguments.number("initial_loss_scale").value_or(0x1p32);
  import.take({"initial_loss_scale", fmt::format("{:g}", scale)}, "training.loss_scale", scale);
  take_steps(arguments, "hysteresis", 2, "training.loss_scale_hysteresis", import);
  take_steps(arguments, "loss_scale_window", 1000, "training.loss_scale_growth_interval", import);
}

void import_precision(MegatronArguments& arguments, Import& import) {
  const bool bf16 = arguments.truth("bf16");
  const bool fp16 = arguments.truth("fp16");
  const std::string precision = bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
  import.derive(
      {"bf16, fp16", fmt::format("{}, {}", bf16 ? "True" : "False", fp16 ? "True" : "False")},
      "training.precision", precision);
  const bool wide = reduces_in_fp32(arguments);
  import.derive({"accumulate_allreduce_grads_in_fp32", wide ? "True" : "False"},
                "training.grad_reduce_dtype", std::string(wide ? "fp32" : precision));
  if (fp16) import_loss_scale(arguments, import);
  import_megatron_low_precision(arguments, import);
}

// Theirs begin with their name of the optimizer: "adam_beta1".
struct MegatronSetting {
  OptimizerSetting setting;
  NamePair names;
};

constexpr MegatronSetting kOptimizerSettings[] = {
    {&OptimizerOptions::momentum, {"_momentum", "training.momentum"}},
    {&OptimizerOptions::beta1, {"_beta1", "training.beta1"}},
    {&OptimizerOptions::beta2, {"_beta2", "training.beta2"}},
    {&OptimizerOptions::epsilon, {"_eps", "training.epsilon"}},
};

// Their defaults, where they are not ours.
constexpr std::pair<std::string_view, double> kOtherDefaults[] = {{"lion_beta1", 0.95},
                                                                  {"lion_beta2", 0.98}};

void import_settings(MegatronArguments& arguments, const OptimizerRule& rule, Import& import) {
  for (const MegatronSetting& row : kOptimizerSettings) {
    if (!rule.reads(row.setting)) continue;
    const std::string name = std::string(rule.elsewhere.megatron.front()) + row.names.theirs;
    if (take_number(arguments, {name.c_str(), row.names.ours}, import)) continue;
    for (const auto& [theirs, value] : kOtherDefaults) {
      if (theirs == name) import.take({name, fmt::format("{:g}", value)}, row.names.ours, value);
    }
  }
}

void import_optimizer(MegatronArguments& arguments, Import& import) {
  const std::string optimizer = optimizer_of(arguments);
  const OptimizerRule* named = optimizer_called(
      megatron::elementwise_optimizer(arguments, optimizer), &OptimizerNames::megatron);
  const OptimizerRule& rule = named != nullptr ? *named : optimizer_rule(default_optimizer());
  if (megatron::is_muon(optimizer)) {
    import_megatron_muon(arguments, optimizer, rule, import);
  } else {
    import.derive({"optimizer", optimizer}, "training.optimizer", std::string(rule.name),
                  rule.decouples_decay ? "decay is decoupled, as in Megatron-LM" : "");
  }
  import_settings(arguments, rule, import);
  take_number(arguments, {"lr", "training.learning_rate"}, import);
  take_number(arguments, {"weight_decay", "training.weight_decay"}, import);
  const double clip = arguments.number("clip_grad").value_or(1.0);
  import.take(arguments.at("clip_grad"), "training.max_grad_norm", clip);
  if (arguments.truth("optimizer_cpu_offload")) {
    import.take({"optimizer_cpu_offload", "True"}, "parallelism.offload_optimizer", true);
  }
}

// Our `activation` is no word of theirs.
void import_modules(const std::string& list, Import& import) {
  const std::span<const char* const> names = recompute_module_names();
  RecomputeModules modules;
  std::vector<std::string> others;
  for (const std::string& word : words_of_list(list)) {
    const auto found = std::find(names.begin(), names.end(), word);
    const auto module = static_cast<RecomputeModule>(found - names.begin());
    if (found == names.end() || module == RecomputeModule::activation) {
      others.push_back(word);
    } else {
      modules.add(module);
    }
  }
  if (!others.empty()) {
    import.warn({megatron::kModules.theirs, fmt::format("{}", fmt::join(others, " "))},
                "not modelled: these modules keep their activations here");
  }
  if (modules == RecomputeModules()) {
    import.derive({megatron::kRecompute.theirs, "selective"}, megatron::kRecompute.ours,
                  std::string("none"));
    return;
  }
  import.derive({megatron::kRecompute.theirs, "selective"}, megatron::kRecompute.ours,
                std::string("selective"));
  import.derive({megatron::kModules.theirs, list}, megatron::kModules.ours, to_string(modules));
  if (!modules.has(RecomputeModule::layernorm)) return;
  import.warn({megatron::kModules.theirs, "layernorm"},
              "all norms ahead of branches are dropped here; Transformer Engine fuses most of them "
              "with the layer behind, and Megatron-LM then drops those ahead of experts and of "
              "latents alone");
}

void import_recompute(MegatronArguments& arguments, Import& import) {
  const char* name = megatron::kRecompute.theirs;
  std::string granularity = arguments.text(name).value_or("none");
  if (arguments.truth("recompute_activations")) granularity = "selective";
  const auto layers = arguments.integer("recompute_num_layers", kForeignCount);
  const std::string method = arguments.text("recompute_method").value_or("");
  const auto modules = arguments.list(megatron::kModules.theirs);
  const bool repeats_experts = arguments.truth("moe_layer_recompute");  // An old flag: one more.
  if (granularity == "full" && repeats_experts) {
    import.warn({"moe_layer_recompute", "True"},
                "recompute_granularity full takes experts, too; Megatron-LM refuses both together");
  } else if (granularity == "selective" || repeats_experts) {
    import_modules(modules.value_or("core_attn") + (repeats_experts ? " moe" : ""), import);
    return;
  }
  import.derive({name, granularity}, megatron::kRecompute.ours, granularity);
  if (granularity == "full" && (method == "block" || layers.value_or(1) > 1)) {
    import.warn({"recompute_method, recompute_num_layers",
                 fmt::format("{}, {}", method, layers.value_or(1))},
                "every block is recomputed by itself here");
  }
}

// Megatron-LM cuts experts as it cuts all else, unless it is told otherwise.
void import_expert_slices(MegatronArguments& arguments, std::int64_t tp, Import& import) {
  constexpr NamePair kSlices = megatron::kExpertTensor;
  const auto given = arguments.integer(kSlices.theirs, kForeignDegree);
  if (!import.has(megatron::kExperts.ours)) return;
  const bool has_biases = import.has("model.moe_expert_bias");
  if (given.value_or(tp) > 1 && (has_biases || megatron::is_muon(optimizer_of(arguments)))) {
    import.warn({kSlices.theirs, std::to_string(given.value_or(tp))},
                has_biases ? "experts with biases are not cut here: each is whole on a rank"
                           : "muon takes whole matrices of experts here: each is on a rank");
  } else if (given) {
    import.take(arguments.at(kSlices.theirs), kSlices.ours, *given);
  } else if (tp > 1) {
    import.derive({kSlices.theirs, "(not there)"}, kSlices.ours, tp, "Megatron-LM's default is tp");
  }
}

}  // namespace

void import_megatron_layout(MegatronArguments& arguments, std::int64_t gpus, Import& import) {
  const std::int64_t tp = import_degree(arguments, megatron::kTensor, import);
  const std::int64_t pp = import_degree(arguments, megatron::kPipeline, import);
  const std::int64_t cp = import_degree(arguments, megatron::kContext, import);
  const std::int64_t ep = import_degree(arguments, megatron::kExpertParallel, import);
  const std::int64_t data = data_parallel_of(arguments, gpus, tp * pp * cp);
  if (cp > 1) import_context(arguments, import);
  if (tp > 1) take_truth(megatron::kSequence, arguments.truth(megatron::kSequence.theirs), import);
  if (tp > 1 && arguments.truth(megatron::kTensorOverlap.theirs)) {
    take_truth(megatron::kTensorOverlap, true, import);
  }
  import_expert_slices(arguments, tp, import);
  import_megatron_dispatch(arguments, ep, import);
  import_megatron_pipeline(arguments, pp, import);
  import_sharding(arguments, data, import);
  import_overlap(arguments, data, import);
  if (arguments.truth("use_tp_pp_dp_mapping")) {
    import.warn({"use_tp_pp_dp_mapping", "True"}, "ranks of a pipeline are farthest apart here");
  }
}

std::vector<std::string> megatron_training_limits(MegatronArguments& arguments) {
  const std::string optimizer = optimizer_of(arguments);
  if (megatron::is_muon(optimizer)) {
    const std::string limit = megatron_muon_limit(arguments);
    return limit.empty() ? std::vector<std::string>{} : std::vector<std::string>{limit};
  }
  if (optimizer_called(optimizer, &OptimizerNames::megatron) != nullptr) return {};
  return {"optimizer " + optimizer + ": AdamW stands in for it, with other state and operations"};
}

void import_megatron_training(MegatronArguments& arguments, Import& import) {
  import_batch(arguments, import);
  import_precision(arguments, import);
  import_optimizer(arguments, import);
  import_recompute(arguments, import);
  import_megatron_offload(arguments, import);
  import_megatron_graphs(arguments, import);
  if (const double dropout = arguments.number("hidden_dropout").value_or(0.1); dropout > 0.0) {
    import.take({"hidden_dropout", fmt::format("{:g}", dropout)}, "training.hidden_dropout",
                dropout);
  }
  if (const double dropout = arguments.number("attention_dropout").value_or(0.1); dropout > 0.0) {
    import.warn({"attention_dropout", fmt::format("{:g}", dropout)},
                "attention drops nothing here");
  }
}

}  // namespace shardsim
