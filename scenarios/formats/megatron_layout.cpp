#include <algorithm>

#include <fmt/format.h>

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/formats/megatron_rows.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

// A degree, 1 if it is missing.
std::int64_t import_degree(MegatronArguments& arguments, const std::string& name,
                           const std::string& path, Import& import) {
  const auto degree = arguments.integer(name, kForeignDegree);
  if (!degree) return 1;
  import.take(name, arguments.written(name), path, *degree);
  return *degree;
}

std::int64_t data_parallel_of(MegatronArguments& arguments, std::int64_t gpus,
                              std::int64_t model_parallel) {
  if (gpus % model_parallel != 0) {
    throw_problem("E1362", arguments.where("pipeline_model_parallel_size"),
                  fmt::format("tensor x pipeline x context parallel size is {}, which does not "
                              "divide {} GPUs",
                              model_parallel, gpus),
                  fmt::format("say with --gpus how many there are, such as {}", model_parallel));
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

void import_vpp(MegatronArguments& arguments, std::int64_t pp, Import& import) {
  if (const auto chunks =
          arguments.integer("virtual_pipeline_model_parallel_size", kForeignDegree)) {
    import.take("virtual_pipeline_model_parallel_size", std::to_string(*chunks), "parallelism.vpp",
                *chunks);
    return;
  }
  if (const auto stages =
          arguments.integer("num_virtual_stages_per_pipeline_rank", kForeignDegree)) {
    import.take("num_virtual_stages_per_pipeline_rank", std::to_string(*stages), "parallelism.vpp",
                *stages);
    return;
  }
  const auto layers = arguments.integer("num_layers_per_virtual_pipeline_stage", kForeignDegree);
  if (!layers) return;
  const auto all = arguments.integer("num_layers", kForeignDegree);
  if (!all) return;
  import.derive("num_layers_per_virtual_pipeline_stage", std::to_string(*layers), "parallelism.vpp",
                std::max<std::int64_t>(*all / pp / *layers, 1));
}

// A first or a last stage of its own size; the other layers are divided evenly.
void import_stages(MegatronArguments& arguments, std::int64_t pp, Import& import) {
  if (const auto layout = arguments.text("pipeline_model_parallel_layout")) {
    import.warn("pipeline_model_parallel_layout", *layout,
                "not read: set parallelism.stage_layers, the layers of each stage");
  }
  for (const char* name :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    if (arguments.truth(name)) {
      import.take(name, "True", std::string("parallelism.") + name, true);
    }
  }
  const auto first = arguments.integer("decoder_first_pipeline_num_layers", kForeignCount);
  const auto last = arguments.integer("decoder_last_pipeline_num_layers", kForeignCount);
  const auto all = arguments.integer("num_layers", kForeignDegree);
  if ((!first && !last) || !all) return;
  const std::int64_t between = pp - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t rest = *all - first.value_or(0) - last.value_or(0);
  if (import.has("parallelism.vpp") || between < 1 || rest % between != 0) {
    import.warn("decoder_first/last_pipeline_num_layers", "",
                "not read with several chunks: set parallelism.stage_layers");
    return;
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(pp), rest / between);
  if (first) layers.front() = *first;
  if (last) layers.back() = *last;
  import.derive("decoder_first/last_pipeline_num_layers",
                fmt::format("{}, {}", arguments.written("decoder_first_pipeline_num_layers"),
                            arguments.written("decoder_last_pipeline_num_layers")),
                "parallelism.stage_layers", layers);
}

void import_pipeline(MegatronArguments& arguments, std::int64_t pp, Import& import) {
  if (pp == 1) return;
  import_vpp(arguments, pp, import);
  const bool interleaved = import.has("parallelism.vpp") && import.integer("parallelism.vpp") > 1;
  import.derive("pipeline_model_parallel_size", std::to_string(pp), "parallelism.schedule",
                std::string(schedule_in(&ScheduleRow::megatron, interleaved).name),
                "Megatron-LM's own");
  import_stages(arguments, pp, import);
}

// The state that is sharded over data-parallel ranks, and the number of replicas.
void import_sharding(MegatronArguments& arguments, std::int64_t data, Import& import) {
  std::int64_t stage = 0;
  std::string name = "use_distributed_optimizer";
  if (arguments.truth("use_distributed_optimizer")) stage = 1;
  for (const char* fsdp : {"use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp"}) {
    if (!arguments.truth(fsdp)) continue;
    const std::string strategy =
        arguments.text("data_parallel_sharding_strategy").value_or("optim_grads_params");
    stage = strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : 3;
    name = fsdp;
  }
  import.derive(name, stage > 0 ? "True" : "False", "parallelism.zero_stage", stage);
  const std::int64_t replicas =
      arguments.integer("num_distributed_optimizer_instances", kForeignDegree).value_or(1);
  if (replicas > 1) {
    import.take("num_distributed_optimizer_instances", std::to_string(replicas),
                "parallelism.dp_replicate", replicas);
  }
  import.derive("data_parallel_size", std::to_string(data), "parallelism.dp_shard",
                data / replicas);
}

// Megatron-LM's buckets count parameters; without overlap there is one bucket.
void import_overlap(MegatronArguments& arguments, std::int64_t data, Import& import) {
  constexpr std::int64_t kFewest = 40'000'000;
  constexpr std::int64_t kPerRank = 1'000'000;
  constexpr std::int64_t kOneBucket = std::int64_t{1} << 40;
  const bool overlap = arguments.truth("overlap_grad_reduce");
  import.take("overlap_grad_reduce", overlap ? "True" : "False", "parallelism.overlap_grad_reduce",
              overlap);
  const bool gather = arguments.truth("overlap_param_gather");
  if (import.integer("parallelism.zero_stage") > 0) {
    import.take("overlap_param_gather", gather ? "True" : "False",
                "parallelism.overlap_param_gather", gather);
  }
  const std::int64_t bytes = reduces_in_fp32(arguments) ? 4 : 2;
  const auto told = arguments.integer("ddp_bucket_size", kForeignSize);
  const std::int64_t bucket =
      overlap ? told.value_or(std::max(kFewest, kPerRank * data)) * bytes : kOneBucket;
  import.derive("ddp_bucket_size", arguments.written("ddp_bucket_size"), "parallelism.bucket_bytes",
                bucket,
                overlap ? fmt::format("parameters of {} bytes", bytes)
                        : std::string("one bucket, as nothing overlaps"));
  if (import.integer("parallelism.zero_stage") < 3) {
    import.derive("ddp_bucket_size", arguments.written("ddp_bucket_size"),
                  "parallelism.first_bucket_bytes", bucket, "all buckets alike");
  }
}

void import_context(MegatronArguments& arguments, Import& import) {
  const std::string way = arguments.text("cp_comm_type").value_or("p2p");
  std::string ours = "ring";
  if (way.find("all_gather") != std::string::npos) ours = "all_gather";
  if (way.find("a2a") != std::string::npos) ours = "ulysses";
  if (way.find("a2a+p2p") != std::string::npos) ours = "two_level";
  import.derive("cp_comm_type", way, "parallelism.cp_attention", ours);
}

}  // namespace

void import_megatron_layout(MegatronArguments& arguments, std::int64_t gpus, Import& import) {
  const std::int64_t tp =
      import_degree(arguments, "tensor_model_parallel_size", "parallelism.tp", import);
  const std::int64_t pp =
      import_degree(arguments, "pipeline_model_parallel_size", "parallelism.pp", import);
  const std::int64_t cp =
      import_degree(arguments, "context_parallel_size", "parallelism.cp", import);
  const std::int64_t ep =
      import_degree(arguments, "expert_model_parallel_size", "parallelism.ep", import);
  const std::int64_t data = data_parallel_of(arguments, gpus, tp * pp * cp);
  if (cp > 1) import_context(arguments, import);
  if (tp > 1) {
    const bool sequence = arguments.truth("sequence_parallel");
    import.take("sequence_parallel", sequence ? "True" : "False", "parallelism.sequence_parallel",
                sequence);
  }
  const std::int64_t expert_tp =
      arguments.integer("expert_tensor_parallel_size", kForeignDegree).value_or(tp);
  if (import.has("model.num_experts") && tp > 1 && expert_tp > 1) {
    import.warn(
        "expert_tensor_parallel_size", std::to_string(expert_tp),
        fmt::format("experts are not cut here: their weights lie whole on ep {} ranks", ep));
  }
  import_pipeline(arguments, pp, import);
  import_sharding(arguments, data, import);
  import_overlap(arguments, data, import);
  if (arguments.truth("use_tp_pp_dp_mapping")) {
    import.warn("use_tp_pp_dp_mapping", "True", "ranks of a pipeline are farthest apart here");
  }
}

}  // namespace shardsim
