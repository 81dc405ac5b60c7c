#include "scenarios/formats/deepspeed_rows.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace shardsim {

namespace {

void write_loss_scale(ForeignObject& fp16, Import& import) {
  const double scale = fp16.number("loss_scale").value_or(0.0);
  if (scale > 0.0) {
    import.take(fp16.name_of("loss_scale"), fp16.written("loss_scale"), "training.loss_scale",
                scale);
    import.derive(fp16.name_of("loss_scale"), fp16.written("loss_scale"), "training.loss_scaling",
                  std::string("static"));
    return;
  }
  if (const auto power = fp16.integer("initial_scale_power", kForeignCount)) {
    constexpr std::int64_t kLargest = 126;
    import.derive(fp16.name_of("initial_scale_power"), std::to_string(*power),
                  "training.loss_scale",
                  std::ldexp(1.0, static_cast<int>(std::clamp<std::int64_t>(*power, 0, kLargest))));
  }
  if (const auto window = fp16.integer("loss_scale_window", kForeignSize)) {
    import.take(fp16.name_of("loss_scale_window"), std::to_string(*window),
                "training.loss_scale_growth_interval", *window);
  }
  if (const auto hysteresis = fp16.integer("hysteresis", kForeignSize)) {
    import.take(fp16.name_of("hysteresis"), std::to_string(*hysteresis),
                "training.loss_scale_hysteresis", *hysteresis);
  }
}

// "offload_optimizer": {"device": "cpu"}
void write_offload(ForeignObject& zero, const char* key, const char* path, Import& import) {
  ForeignObject offload = zero.inner(key);
  const std::string device = offload.text("device").value_or("none");
  if (device == "cpu") {
    import.take(offload.name_of("device"), device, path, true);
  } else if (device != "none") {
    import.warn(offload.name_of("device"), device,
                "only host memory is modelled: nothing is offloaded");
  }
}

void write_buckets(ForeignObject& zero, std::int64_t stage, Import& import) {
  const std::int64_t element = import.has("training.precision") ? 2 : 4;
  if (stage > 2) return;
  const auto elements = zero.integer("reduce_bucket_size", kForeignNumber);
  if (elements && *elements > 0) {
    import.derive(zero.name_of("reduce_bucket_size"), zero.written("reduce_bucket_size"),
                  "parallelism.bucket_bytes", *elements * element,
                  fmt::format("elements of {} bytes", element));
    import.derive(zero.name_of("reduce_bucket_size"), zero.written("reduce_bucket_size"),
                  "parallelism.first_bucket_bytes", *elements * element, "all buckets alike");
  }
}

void write_adam(ForeignObject& parameters, Import& import) {
  struct Row {
    const char* key;
    const char* path;
  };
  for (const Row& row : {Row{"lr", "training.learning_rate"}, Row{"eps", "training.epsilon"},
                         Row{"weight_decay", "training.weight_decay"}}) {
    if (const auto value = parameters.number(row.key)) {
      import.take(parameters.name_of(row.key), parameters.written(row.key), row.path, *value);
    } else if (parameters.is_auto(row.key)) {
      import.warn(parameters.name_of(row.key), "auto", "left at the default: it costs nothing");
    }
  }
  const JsonValue* betas = parameters.find("betas");
  if (betas == nullptr || !betas->is_array() || betas->array().size() != 2) return;
  const char* paths[] = {"training.beta1", "training.beta2"};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* beta = std::get_if<double>(&betas->array()[i].data);
    if (beta != nullptr) {
      import.take(parameters.name_of("betas"), fmt::format("{:g}", *beta), paths[i], *beta);
    }
  }
}

}  // namespace

void write_ds_precision(ForeignObject& config, Import& import) {
  ForeignObject bf16 = config.inner(config.has("bfloat16") ? "bfloat16" : "bf16");
  ForeignObject fp16 = config.inner("fp16");
  if (bf16.truth("enabled").value_or(false)) {
    import.take(bf16.name_of("enabled"), "true", "training.precision", std::string("bf16"));
  } else if (fp16.truth("enabled").value_or(false)) {
    import.take(fp16.name_of("enabled"), "true", "training.precision", std::string("fp16"));
    write_loss_scale(fp16, import);
  } else if (bf16.is_auto("enabled") || fp16.is_auto("enabled")) {
    import.assume("bf16.enabled, fp16.enabled", "training.precision", std::string("bf16"),
                  "\"auto\" is filled in by the launching program");
  } else {
    import.derive("bf16, fp16", "(not enabled)", "training.precision", std::string("fp32"));
  }
  const auto wire = config.text("communication_data_type");
  if (wire) {
    const std::string ours = *wire == "fp32"                       ? "fp32"
                             : *wire == "bfp16" || *wire == "bf16" ? "bf16"
                                                                   : "fp16";
    import.take("communication_data_type", *wire, "training.grad_reduce_dtype", ours);
  }
}

void write_ds_sharding(ForeignObject& config, Import& import) {
  ForeignObject zero = config.inner("zero_optimization");
  const std::int64_t stage = zero.integer("stage", kForeignCount).value_or(0);
  import.take(zero.name_of("stage"), zero.written("stage"), "parallelism.zero_stage", stage);
  if (stage > 0) write_offload(zero, "offload_optimizer", "parallelism.offload_optimizer", import);
  if (stage == 3) write_offload(zero, "offload_param", "parallelism.offload_parameters", import);
  // DeepSpeed's own default.
  const bool overlap = zero.truth("overlap_comm").value_or(stage == 3);
  import.derive(zero.name_of("overlap_comm"), zero.written("overlap_comm"),
                "parallelism.overlap_grad_reduce", overlap);
  write_buckets(zero, stage, import);
  if (zero.has("stage3_prefetch_bucket_size")) {
    import.ignore(zero.name_of("stage3_prefetch_bucket_size"),
                  zero.written("stage3_prefetch_bucket_size"),
                  "units are gathered ahead here, not elements: parallelism.prefetch_units");
  }
  const std::int64_t secondary =
      zero.integer("zero_hpz_partition_size", kForeignDegree).value_or(1);
  if (secondary > 1) {
    import.warn(zero.name_of("zero_hpz_partition_size"), std::to_string(secondary),
                fmt::format("hpZ is not modelled; nearest is hybrid sharding: dp_shard {} with "
                            "dp_replicate, which also replicates the optimizer's state",
                            secondary));
  }
  for (const std::string& key : zero.rest()) {
    import.ignore(zero.name_of(key), zero.written(key), "not modelled");
  }
}

void write_ds_optimizer(ForeignObject& config, Import& import) {
  ForeignObject optimizer = config.inner("optimizer");
  const auto type = optimizer.text("type");
  if (type) {
    const bool plain = *type == "SGD";
    if (!plain && *type != "Adam" && *type != "AdamW") {
      import.warn(optimizer.name_of("type"), *type, "not modelled: AdamW stands in for it");
    }
    // DeepSpeed's Adam decouples its decay by default.
    import.derive(optimizer.name_of("type"), *type, "training.optimizer",
                  std::string(plain ? "momentum" : "adamw"));
    ForeignObject parameters = optimizer.inner("params");
    write_adam(parameters, import);
  }
  if (const auto clip = config.number("gradient_clipping")) {
    import.take("gradient_clipping", config.written("gradient_clipping"), "training.max_grad_norm",
                *clip);
  } else if (config.is_auto("gradient_clipping")) {
    import.warn("gradient_clipping", "auto", "left at 0: a norm costs a little");
  }
  if (config.has("activation_checkpointing")) {
    (void)config.inner("activation_checkpointing");
    import.warn("activation_checkpointing", "{...}",
                "it only says how: set training.recompute to full if the model asks for it");
  }
}

}  // namespace shardsim
