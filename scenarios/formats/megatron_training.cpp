#include <cmath>

#include <fmt/format.h>

#include "scenarios/formats/megatron_rows.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

void take_number(MegatronArguments& arguments, const std::string& name, const std::string& path,
                 Import& import) {
  if (const auto value = arguments.number(name)) {
    import.take(name, arguments.written(name), path, *value);
  }
}

void import_batch(MegatronArguments& arguments, Import& import) {
  const auto told = arguments.integer("micro_batch_size", kForeignDegree);
  const std::int64_t micro = told.value_or(1);
  if (told) {
    import.take("micro_batch_size", arguments.written("micro_batch_size"),
                "training.micro_batch_size", micro);
  } else {
    import.assume("micro_batch_size", "training.micro_batch_size", micro,
                  "the file does not say it");
  }
  const std::int64_t data =
      import.integer("parallelism.dp_shard") *
      (import.has("parallelism.dp_replicate") ? import.integer("parallelism.dp_replicate") : 1);
  const auto global = arguments.integer("global_batch_size", kForeignSize);
  if (global) {
    import.take("global_batch_size", arguments.written("global_batch_size"),
                "training.global_batch_size", *global);
  } else {
    import.derive("global_batch_size", "(not there)", "training.global_batch_size", micro * data,
                  "Megatron-LM's default: one microbatch per rank");
  }
  if (const auto rampup = arguments.text("rampup_batch_size")) {
    import.warn("rampup_batch_size", *rampup, "the batch is that after it has grown");
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
  import.take(name, fmt::format("{:g}", steps), path, static_cast<std::int64_t>(steps));
}

void import_loss_scale(MegatronArguments& arguments, Import& import) {
  const double scale = arguments.number("initial_loss_scale").value_or(0x1p32);
  import.take("initial_loss_scale", fmt::format("{:g}", scale), "training.loss_scale", scale);
  take_steps(arguments, "hysteresis", 2, "training.loss_scale_hysteresis", import);
  take_steps(arguments, "loss_scale_window", 1000, "training.loss_scale_growth_interval", import);
}

void import_precision(MegatronArguments& arguments, Import& import) {
  const bool bf16 = arguments.truth("bf16");
  const bool fp16 = arguments.truth("fp16");
  const std::string precision = bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
  import.derive("bf16, fp16",
                fmt::format("{}, {}", bf16 ? "True" : "False", fp16 ? "True" : "False"),
                "training.precision", precision);
  const bool wide = reduces_in_fp32(arguments);
  import.derive("accumulate_allreduce_grads_in_fp32", wide ? "True" : "False",
                "training.grad_reduce_dtype", std::string(wide ? "fp32" : precision));
  if (arguments.text("fp8") || arguments.text("fp8_format")) {
    import.warn("fp8", arguments.written("fp8") + arguments.written("fp8_format"),
                "not modelled: matrix products cost as in " + precision);
  }
  if (fp16) {
    import_loss_scale(arguments, import);
  }
}

void import_optimizer(MegatronArguments& arguments, Import& import) {
  const std::string optimizer = arguments.text("optimizer").value_or("adam");
  if (optimizer == "sgd") {
    import.derive("optimizer", optimizer, "training.optimizer", std::string("momentum"));
    take_number(arguments, "sgd_momentum", "training.momentum", import);
  } else {
    import.derive("optimizer", optimizer, "training.optimizer", std::string("adamw"),
                  "decay is decoupled, as in Megatron-LM");
    take_number(arguments, "adam_beta1", "training.beta1", import);
    take_number(arguments, "adam_beta2", "training.beta2", import);
    take_number(arguments, "adam_eps", "training.epsilon", import);
  }
  take_number(arguments, "lr", "training.learning_rate", import);
  take_number(arguments, "weight_decay", "training.weight_decay", import);
  const double clip = arguments.number("clip_grad").value_or(1.0);
  import.take("clip_grad", arguments.written("clip_grad"), "training.max_grad_norm", clip);
  if (arguments.truth("optimizer_cpu_offload")) {
    import.take("optimizer_cpu_offload", "True", "parallelism.offload_optimizer", true);
  }
}

void import_recompute(MegatronArguments& arguments, Import& import) {
  std::string granularity = arguments.text("recompute_granularity").value_or("none");
  if (arguments.truth("recompute_activations")) granularity = "selective";
  const auto layers = arguments.integer("recompute_num_layers", kForeignCount);
  const std::string method = arguments.text("recompute_method").value_or("");
  if (granularity == "selective") {
    // With a fused attention, as here, no scores are kept, so there is nothing to recompute.
    import.derive("recompute_granularity", granularity, "training.recompute", std::string("none"),
                  "it repeats core attention, whose scores are not kept here in any case");
    const std::string modules = arguments.text("recompute_modules").value_or("['core_attn']");
    if (modules.find(',') != std::string::npos || modules.find("core_attn") == std::string::npos) {
      import.warn("recompute_modules", modules,
                  "only core_attn is as here: for layernorm and moe_act, recompute selective is "
                  "nearest");
    }
    return;
  }
  import.derive("recompute_granularity", granularity, "training.recompute", granularity);
  if (granularity == "full" && (method == "block" || layers.value_or(1) > 1)) {
    import.warn("recompute_method, recompute_num_layers",
                fmt::format("{}, {}", method, layers.value_or(1)),
                "every block is recomputed by itself here");
  }
}

}  // namespace

// With bf16, Megatron-LM reduces in fp32 by default.
bool reduces_in_fp32(MegatronArguments& arguments) {
  const bool told = arguments.truth("accumulate_allreduce_grads_in_fp32");
  if (!arguments.truth("bf16")) return told || !arguments.truth("fp16");
  return !arguments.truth("grad_reduce_in_bf16");
}

std::vector<std::string> megatron_training_limits(MegatronArguments& arguments) {
  const std::string optimizer = arguments.text("optimizer").value_or("adam");
  if (optimizer == "adam" || optimizer == "sgd") return {};
  return {"optimizer " + optimizer + ": AdamW stands in for it, with other state and operations"};
}

void import_megatron_training(MegatronArguments& arguments, Import& import) {
  import_batch(arguments, import);
  import_precision(arguments, import);
  import_optimizer(arguments, import);
  import_recompute(arguments, import);
  if (const double dropout = arguments.number("hidden_dropout").value_or(0.1); dropout > 0.0) {
    import.take("hidden_dropout", fmt::format("{:g}", dropout), "training.hidden_dropout", dropout);
  }
  if (const double dropout = arguments.number("attention_dropout").value_or(0.1); dropout > 0.0) {
    import.warn("attention_dropout", fmt::format("{:g}", dropout), "attention drops nothing here");
  }
  if (arguments.truth("tp_comm_overlap")) {
    import.warn("tp_comm_overlap", "True",
                "not modelled: tensor-parallel communication is fully exposed");
  }
}

}  // namespace shardsim
