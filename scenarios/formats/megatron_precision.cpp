#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "strategies/model/activation_store.hpp"
#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/low_precision.hpp"

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/scenario.hpp"

// Products of linear layers in fewer bits, both ways. Names: megatron/training/arguments.py and
// megatron/core/transformer/transformer_config.py at NVIDIA/Megatron-LM d98e8a64.
namespace shardsim {

namespace {

constexpr const char* kDelayed = "delayed";
constexpr NamePair kHistory = {"fp8_amax_history_len", "training.amax_history_len"};
constexpr NamePair kCompute = {"fp8_amax_compute_algo", "training.amax_compute"};

// Transformer Engine updates its history where an autocast ends: with each microbatch.
void import_history(MegatronArguments& arguments, bool is_delayed, Import& import) {
  const auto length = arguments.number(kHistory.theirs);
  const auto algorithm = arguments.text(kCompute.theirs);
  if (!is_delayed) return;  // Nobody reads them there either.
  import.derive({megatron::kFp8Recipe.theirs, kDelayed}, "training.amax_update",
                std::string(to_string(AmaxUpdate::microbatch)));
  if (length) {
    const auto steps = static_cast<std::int64_t>(*length);
    import.take({kHistory.theirs, std::to_string(steps)}, kHistory.ours, steps);
  }
  if (algorithm) import.take({kCompute.theirs, *algorithm}, kCompute.ours, *algorithm);
}

void add_history(const TrainingSpec& training, Flags& flags) {
  flags.flag(kHistory, training.amax_history_len);
  flags.flag(kCompute, to_string(training.amax_compute));
  if (training.amax_update == AmaxUpdate::microbatch) return;
  flags.lacks(
      "scales that change once a step, and not with each microbatch (training.amax_update)");
}

// "bf16", or as a log has it, "torch.bfloat16".
std::string state_dtype_of(MegatronArguments& arguments, const char* name) {
  const std::string written = arguments.text(name).value_or("fp32");
  if (written == "torch.float32") return "fp32";
  if (written == "torch.bfloat16") return "bf16";
  return written == "torch.float16" ? "fp16" : written;
}

void import_state_dtype(MegatronArguments& arguments, Import& import) {
  const std::string mean = state_dtype_of(arguments, megatron::kMean.theirs);
  const std::string square = state_dtype_of(arguments, megatron::kSquare.theirs);
  const bool is_aware = arguments.truth(megatron::kAwareOfTypes);
  if (mean == "fp32" && square == "fp32") return;
  if (!is_aware) {
    const bool is_mean = mean != "fp32";
    return import.warn(
        {is_mean ? megatron::kMean.theirs : megatron::kSquare.theirs, is_mean ? mean : square},
        "Megatron-LM reads it beside use_precision_aware_optimizer alone");
  }
  const bool is_known = mean == "bf16" || mean == "fp16";
  if (mean == square && is_known) {
    return import.take({megatron::kMean.theirs, mean}, megatron::kMean.ours, mean);
  }
  import.warn(
      {concat(megatron::kMean.theirs, ", ", megatron::kSquare.theirs), concat(mean, ", ", square)},
      "moments of one type alone are modelled, of 16 bits or more: theirs are not read");
}

void import_activation_store(MegatronArguments& arguments, Import& import) {
  if (!arguments.truth(megatron::kNarrowInputs.theirs)) return;
  import.derive({megatron::kNarrowInputs.theirs, "True"}, megatron::kNarrowInputs.ours,
                std::string(to_string(ActivationStore::e4m3)));
}

// A field of their configuration, which has no flag.
void add_activation_store(const Scenario& scenario, Flags& flags) {
  const ActivationStore store = scenario.training.activation_store;
  if (store == ActivationStore::same) return;
  const bool is_theirs =
      store == ActivationStore::e4m3 && scenario.model.activation == Activation::swiglu;
  flags.lacks(std::string("a flag for inputs of activation functions in 8 bits ") +
              (is_theirs ? "(set activation_func_fp8_input_store in its TransformerConfig)"
                         : "as planned (training.activation_store)"));
}

}  // namespace

void import_megatron_low_precision(MegatronArguments& arguments, Import& import) {
  import_state_dtype(arguments, import);
  import_activation_store(arguments, import);
  const bool is_fp8 = arguments.text("fp8_format") || arguments.text("fp8");
  const std::string scaling = arguments.text(megatron::kFp8Recipe.theirs).value_or(kDelayed);
  import_history(arguments, is_fp8 && scaling == kDelayed, import);
  // "fp8" is the name in the configuration of a model, "fp8_format" that on a command line.
  const char* const fp8 = arguments.text("fp8_format") ? "fp8_format" : "fp8";
  if (arguments.text(megatron::kFp4Format.theirs)) {
    const char* const fp4 = megatron::kFp4Format.theirs;
    import.derive({fp4, arguments.written(fp4)}, megatron::kFp4Format.ours, std::string("nvfp4"));
  } else if (arguments.text(fp8)) {
    import.derive({fp8, arguments.written(fp8)}, megatron::kFp8Format.ours, std::string("fp8"));
    const std::string recipe = arguments.text(megatron::kFp8Recipe.theirs).value_or("delayed");
    const auto known = all_recipes();
    if (std::ranges::any_of(known, [&](const RecipeRow& row) { return recipe == row.name; })) {
      import.take({megatron::kFp8Recipe.theirs, recipe}, megatron::kFp8Recipe.ours, recipe);
    } else {
      import.warn({megatron::kFp8Recipe.theirs, recipe}, "no recipe here: the device's usual one");
    }
  } else {
    return;
  }
  for (const char* const gather : {megatron::kNarrowWeights.theirs, "fp8_param"}) {
    if (!arguments.truth(gather)) continue;
    import.take({gather, "True"}, megatron::kNarrowWeights.ours, true);
    static_cast<void>(arguments.truth("reuse_grad_buf_for_mxfp8_param_ag"));  // It is so here.
    break;
  }
  if (!arguments.truth("bf16")) {
    import.warn({"bf16", "False"}, "beside products in low precision all else is bf16 here");
  }
  if (!arguments.truth(megatron::kSomeLayersBf16)) return;
  for (const NamePair& pair : {megatron::kFirstBf16, megatron::kLastBf16}) {
    const auto layers = static_cast<std::int64_t>(arguments.number(pair.theirs).value_or(1));
    import.take({pair.theirs, std::to_string(layers)}, pair.ours, layers);
  }
}

void add_low_precision(const Scenario& scenario, Flags& flags) {
  const TrainingSpec& training = scenario.training;
  add_activation_store(scenario, flags);
  if (!training.has_low_products()) return;
  if (training.precision == Precision::nvfp4) {
    flags.flag(megatron::kFp4Format, "e2m1");
    flags.flag("fp4-recipe", "nvfp4");
  } else {
    const bool has_blocks = training.fp8_recipe == "blockwise" || training.fp8_recipe == "mxfp8";
    flags.flag(megatron::kFp8Format, has_blocks ? "e4m3" : "hybrid");
    flags.flag(megatron::kFp8Recipe, training.fp8_recipe);
    if (training.fp8_recipe == kDelayed) add_history(training, flags);
  }
  if (training.quantized_parameters) flags.flag(megatron::kNarrowWeights);
  const bool is_sharded = scenario.parallelism.zero_stage == 3;
  if (training.quantized_parameters && training.fp8_recipe == "mxfp8" && !is_sharded) {
    flags.flag("reuse_grad_buf_for_mxfp8_param_ag");
  }
  const std::int64_t kept = training.bf16_layers_at_start + training.bf16_layers_at_end;
  if (kept > 0 && training.fp8_recipe == kDelayed) {
    return flags.lacks("layers in bf16 beside delayed scaling (training.bf16_layers_at_start)");
  }
  if (kept == 0) return;
  flags.flag(megatron::kSomeLayersBf16);
  flags.flag(megatron::kFirstBf16, training.bf16_layers_at_start);
  flags.flag(megatron::kLastBf16, training.bf16_layers_at_end);
}

void add_state_dtype(const Scenario& scenario, Flags& flags) {
  const TrainingSpec& t = scenario.training;
  if (t.optimizer_state_dtype == t.master_dtype()) return;
  const std::string dtype = to_string(t.optimizer_state_dtype);
  if (scenario.parallelism.zero_stage == 0) {
    return flags.lacks("optimizer state in " + dtype +
                       " without --use-distributed-optimizer (training.optimizer_state_dtype)");
  }
  if (t.optimizer_state_dtype == DType::fp64) {
    return flags.lacks("optimizer state in fp64 (training.optimizer_state_dtype)");
  }
  flags.flag(megatron::kAwareOfTypes);
  flags.flag(megatron::kMean, dtype);
  flags.flag(megatron::kSquare, dtype);
}

std::vector<std::string> unsaid_memory(const Scenario& scenario) {
  const TrainingSpec& training = scenario.training;
  std::vector<std::string> unsaid;
  const auto add = [&unsaid](std::string what, const std::string& value, const char* field) {
    unsaid.push_back(std::move(what) + " " + value + " (" + field + ")");
  };
  if (training.has_low_products()) {
    add("products in", to_string(training.precision), "training.precision");
  }
  if (training.optimizer_state_dtype != training.master_dtype()) {
    add("optimizer state in", to_string(training.optimizer_state_dtype),
        "training.optimizer_state_dtype");
  }
  if (training.activation_store != ActivationStore::same) {
    add("inputs of activations in", to_string(training.activation_store),
        "training.activation_store");
  }
  if (scenario.parallelism.offloads_activations()) {
    add("activations in host memory of layers:",
        std::to_string(scenario.parallelism.offload_layers), "parallelism.offload_layers");
  }
  if (scenario.system.cuda_graphs != "none") {
    add("CUDA graphs of", scenario.system.cuda_graphs, "system.cuda_graphs");
  }
  return unsaid;
}

}  // namespace shardsim
