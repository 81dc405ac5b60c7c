#include "scenarios/formats/torchtitan_rows.hpp"

#include <fmt/format.h>

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/formats/torchtitan_batch.hpp"

namespace shardsim {

namespace {

void write_schedule(ForeignObject& parallelism, Import& import) {
  const auto csv = parallelism.text("pipeline_parallel_schedule_csv");
  if (csv && !csv->empty()) {
    import.take(parallelism.name_of("pipeline_parallel_schedule_csv"), *csv,
                "parallelism.schedule_file", *csv);
    import.derive(parallelism.name_of("pipeline_parallel_schedule_csv"), *csv,
                  "parallelism.schedule", std::string(kScheduleFromFile));
    return;
  }
  const std::string name = parallelism.text("pipeline_parallel_schedule")
                               .value_or(std::string(default_schedule().torchtitan));
  const ScheduleRow* const found = find_schedule(&ScheduleRow::torchtitan, name);
  if (found == nullptr) {
    import.warn(
        parallelism.name_of("pipeline_parallel_schedule"), name,
        fmt::format("not a schedule that is known here: {} is used", default_schedule().name));
    return;
  }
  import.take(parallelism.name_of("pipeline_parallel_schedule"), name, "parallelism.schedule",
              std::string(found->name));
  if (const auto layers =
          parallelism.integer("pipeline_parallel_layers_per_stage", kForeignDegree)) {
    import.warn(parallelism.name_of("pipeline_parallel_layers_per_stage"), std::to_string(*layers),
                "set parallelism.vpp to num_layers / pp / this");
  }
}

std::int64_t write_degree(ForeignObject& parallelism, const char* key, const char* path,
                          Import& import) {
  const std::int64_t degree = parallelism.integer(key, kForeignDegree).value_or(1);
  if (parallelism.has(key)) {
    import.take(parallelism.name_of(key), parallelism.written(key), path, degree);
  }
  return degree;
}

std::int64_t shards_of(ForeignObject& parallelism, std::int64_t gpus, std::int64_t others,
                       std::int64_t replicas, Import& import) {
  const char* key = "data_parallel_shard_degree";
  const auto told = integer_unless_rest(parallelism, key, kForeignDegree);
  const bool divides = gpus % others == 0 && gpus / others % replicas == 0;
  const std::int64_t shards = divides ? gpus / others / replicas : 0;
  if (!divides || (told && *told != shards)) {
    const double product = static_cast<double>(others) * static_cast<double>(replicas) *
                           static_cast<double>(told.value_or(1));
    parallelism.refuse("E1366", key,
                       fmt::format("degrees multiply to {:.0f}, which {} {} GPUs", product,
                                   told ? "are not" : "does not divide", gpus),
                       "say with --gpus how many there were");
  }
  import.derive(parallelism.name_of(key), std::to_string(told.value_or(-1)), "parallelism.dp_shard",
                shards, told ? "" : "the GPUs that are left");
  return shards;
}

void write_sharding(ForeignObject& parallelism, std::int64_t shards, std::int64_t cp,
                    std::int64_t pp, Import& import) {
  const std::int64_t stage = shards * cp > 1 ? 3 : 0;
  import.derive(parallelism.name_of("data_parallel_shard_degree"), std::to_string(shards),
                "parallelism.zero_stage", stage, stage == 3 ? "FSDP2" : "DDP");
  if (stage == 0) return;
  const std::string policy = parallelism.text("fsdp_reshard_after_forward").value_or("default");
  const bool reshard = policy == "always" || (policy == "default" && pp == 1);
  import.derive(parallelism.name_of("fsdp_reshard_after_forward"), policy,
                "parallelism.reshard_after_forward", reshard);
}

void write_context(ForeignObject& parallelism, std::int64_t cp, Import& import) {
  if (cp == 1) return;
  const std::string method =
      parallelism.text("context_parallel_rotate_method").value_or("allgather");
  import.derive(parallelism.name_of("context_parallel_rotate_method"), method,
                "parallelism.cp_attention",
                std::string(method == "allgather" ? "all_gather" : "ring"));
}

}  // namespace

std::int64_t write_titan_layout(ForeignObject& parallelism, std::int64_t gpus, Import& import) {
  const std::int64_t tp =
      write_degree(parallelism, "tensor_parallel_degree", "parallelism.tp", import);
  const std::int64_t pp =
      write_degree(parallelism, "pipeline_parallel_degree", "parallelism.pp", import);
  const std::int64_t cp =
      write_degree(parallelism, "context_parallel_degree", "parallelism.cp", import);
  write_degree(parallelism, "expert_parallel_degree", "parallelism.ep", import);
  const std::int64_t replicas = write_degree(parallelism, "data_parallel_replicate_degree",
                                             "parallelism.dp_replicate", import);
  const std::int64_t shards = shards_of(parallelism, gpus, tp * pp * cp, replicas, import);
  if (parallelism.integer("expert_tensor_parallel_degree", kForeignDegree).value_or(1) > 1) {
    import.warn(parallelism.name_of("expert_tensor_parallel_degree"),
                parallelism.written("expert_tensor_parallel_degree"), "experts are not cut here");
  }
  if (tp > 1) {
    import.derive(parallelism.name_of("tensor_parallel_degree"), std::to_string(tp),
                  "parallelism.sequence_parallel",
                  parallelism.truth("enable_sequence_parallel").value_or(true),
                  "torchtitan's tensor parallelism has it");
  }
  if (parallelism.truth("enable_async_tensor_parallel").value_or(false)) {
    import.warn(parallelism.name_of("enable_async_tensor_parallel"), "true",
                "not modelled: tensor-parallel communication is fully exposed");
  }
  if (pp > 1) write_schedule(parallelism, import);
  write_context(parallelism, cp, import);
  write_sharding(parallelism, shards, cp, pp, import);
  return shards * replicas;
}

void write_titan_training(ForeignObject& training, Import& import) {
  if (const auto norm = training.number("max_norm")) {
    import.take(training.name_of("max_norm"), training.written("max_norm"),
                "training.max_grad_norm", *norm);
  }
  const auto precision = [&](const char* key, const char* path, const char* otherwise) {
    const std::string name = training.text(key).value_or(otherwise);
    const std::string ours = name == "bfloat16" ? "bf16" : name == "float16" ? "fp16" : "fp32";
    import.derive(training.name_of(key), name, path, ours);
  };
  precision("mixed_precision_param", "training.precision", "bfloat16");
  precision("mixed_precision_reduce", "training.grad_reduce_dtype", "float32");
}

void write_titan_rest(ForeignObject& root, Import& import) {
  ForeignObject optimizer = root.inner("optimizer");
  if (const auto name = optimizer.text("name")) {
    import.derive(optimizer.name_of("name"), *name, "training.optimizer",
                  std::string(*name == "Adam" ? "adam" : "adamw"));
  }
  struct Row {
    const char* key;
    const char* path;
  };
  for (const Row& row : {Row{"lr", "training.learning_rate"}, Row{"beta1", "training.beta1"},
                         Row{"beta2", "training.beta2"}, Row{"eps", "training.epsilon"},
                         Row{"weight_decay", "training.weight_decay"}}) {
    if (const auto value = optimizer.number(row.key)) {
      import.take(optimizer.name_of(row.key), optimizer.written(row.key), row.path, *value);
    }
  }
  ForeignObject checkpoint = root.inner("activation_checkpoint");
  const std::string mode = checkpoint.text("mode").value_or("none");
  if (mode == "none" || mode == "full" || mode == "selective") {
    import.take(checkpoint.name_of("mode"), mode, "training.recompute", mode);
  } else {
    import.warn(checkpoint.name_of("mode"), mode, "not modelled: nothing is recomputed");
  }
  if (mode == "selective") {
    import.warn(checkpoint.name_of("mode"), mode,
                "torchtitan's choice of operations differs: here outputs of norms and activation "
                "functions are recomputed");
  }
}

}  // namespace shardsim
