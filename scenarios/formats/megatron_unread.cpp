#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "scenarios/formats/megatron.hpp"

// Lists the arguments that no row of the importer reads and that change a step's cost, memory or
// numbers. Names, defaults and meanings: Megatron-LM's arguments.py and the fields of
// TransformerConfig, ModelParallelConfig, OptimizerConfig and DistributedDataParallelConfig.
namespace shardsim {

namespace {

/// Arguments that have an effect and are not modelled, for one reason.
struct Unmodelled {
  std::string_view names;  ///< Between bars; a final * matches any ending.
  /// Values equal to those here, between bars; None always is, and False unless True alone is.
  std::string_view as_here;
  std::string_view why;
};

constexpr std::string_view kNumbers = "not modelled: it changes the numbers, not the cost";
constexpr std::string_view kExpertOverlap =
    "not modelled: dispatch and combine of tokens are fully exposed";
constexpr std::string_view kGroupLimited = "not modelled: tokens go to the best of all experts";
constexpr std::string_view kFused = "not modelled: these kernels cost as the software row says";
constexpr std::string_view kNarrow = "not modelled: products, weights and traffic stay as wide";
constexpr std::string_view kCast = "not modelled: state is as wide as the precision says";
constexpr std::string_view kGraph = "not modelled: each kernel is launched by itself";
constexpr std::string_view kSharded = "not modelled: sharded data parallelism costs as plain FSDP";
constexpr std::string_view kOffload = "not modelled: activations stay on the device";
constexpr std::string_view kBackward = "not modelled: weight gradients follow at once";
constexpr std::string_view kOtherBlocks = "not modelled: every block is plain attention and an MLP";
constexpr std::string_view kOtherLoss = "not modelled: the step trains next tokens alone";
constexpr std::string_view kLengths = "not modelled: all sequences have seq_length tokens";
constexpr std::string_view kPipeline = "not modelled: stages exchange as the schedule says";

constexpr auto kUnmodelled = std::to_array<Unmodelled>({
    // Blocks.
    {"mtp_use_repeated_layer", "", "not modelled: each depth has a block of its own"},
    {"rotary_interleaved|rotary_seq_len_interpolation_factor|use_rope_scaling|"
     "apply_residual_connection_post_layernorm|apply_query_key_layer_scaling|use_mup",
     "", kNumbers},
    {"dsa_indexer_topk|hybrid_*|heterogeneous_layers_*|enable_mhc_connections|spec", "0.0",
     kOtherBlocks},
    {"yarn_*", "", "not modelled: rotary angles are not scaled"},
    {"init_method_*", "0.02", "weights start from another distribution here"},
    {"fp32_residual_connection", "", "not modelled: residuals are as wide as the rest"},
    // Experts.
    {"moe_router_topk_limited_devices", "", kGroupLimited},
    {"moe_router_load_balancing_type", "aux_loss|none",
     "not modelled: the loss that balances is that over a microbatch"},
    {"moe_router_force_*", "", "routing is model.moe_routing: uniform is nearest"},
    {"moe_input_jitter_eps", "", kNumbers},
    {"moe_router_dtype", "", "not modelled: scores are as wide as the rest"},
    {"moe_enable_deepep|moe_flex_dispatcher_*", "deepep|hybridep|ncclep",
     "not modelled: what a dispatcher is made of; moe_token_dispatcher_type says how tokens "
     "travel"},
    {"moe_deepep_num_sms", "20", "not modelled: no cores are set aside for traffic"},
    {"moe_hybridep_*", "16|108", "not modelled: no cores are set aside for traffic"},
    {"moe_shared_expert_overlap", "", "not modelled: shared experts run beside nothing"},
    {"moe_router_padding_for_*", "", "not modelled: experts get the tokens they have"},
    {"moe_token_drop_policy", "probs", kNumbers},
    {"moe_permute_fusion|moe_router_fusion", "", kFused},
    {"moe_dispatch_fwd_dtype|moe_combine_bwd_dtype", "bf16",
     "tokens travel in 8 bits only where moe_token_dispatcher_type is flex"},
    {"moe_paged_stash", "", kOffload},
    {"moe_expert_rank_capacity_factor", "", "not modelled: set moe_capacity_factor"},
    {"moe_use_upcycling", "", "weights start from another distribution here"},
    {"overlap_moe_expert_parallel_comm|overlap_dispatch_backward_with_experts_wgrad|"
     "high_priority_a2a_comm_stream|ep_overlap_early_attn_memory_release",
     "", kExpertOverlap},
    {"delay_wgrad_compute", "",
     "not modelled without overlap_moe_expert_parallel_comm, which Megatron-LM wants for it"},
    // Precision.
    {"fp8_param|fp8_param_gather|fp8_e4m3|fp8_hybrid|fp8_output_proj|"
     "fp8_dot_product_attention|fp8_multi_head_attention|"
     "reuse_grad_buf_for_mxfp8_param_ag|"
     "keep_fp8_transpose_cache|te_precision_config_file|quant_recipe|use_kitchen*",
     "", kNarrow},
    {"fp4_param|fp4_param_gather", "", kNarrow},
    {"kitchen_*", "sdpa", kNarrow},
    {"fp16_lm_cross_entropy", "", kCast},
    {"main_grads_dtype|main_params_dtype", "fp32|torch.float32", kCast},
    {"megatron_fsdp_main_*", "fp32|torch.float32|auto", kCast},
    {"megatron_fsdp_grad_comm_dtype", "auto", kCast},
    {"loss_scale", "", "a scale that never changes is not modelled"},
    // Optimizer.
    {"no_decoupled_weight_decay|decoupled_lr|calculate_per_token_loss", "", kNumbers},
    {"decoupled_weight_decay", "True", kNumbers},
    {"start_weight_decay", "", "weight decay does not change here"},
    {"optimizer_offload_fraction", "0|0.0|1|1.0", "not modelled: all of it is offloaded"},
    {"overlap_cpu_optimizer_d2h_h2d", "",
     "not modelled: the steps of copying and adding follow each other"},
    {"overlap_param_gather_with_optimizer_step", "",
     "not modelled: weights are gathered after the step"},
    {"muon_fp32_matmul_prec", "medium", "not modelled: matrices are iterated in bf16"},
    {"muon_use_syrk", "", kFused},
    {"lion_*|muon_*", "", "the optimizer does not read it"},
    {"step_batch_size_schedule", "", "the batch does not grow here"},
    {"freeze_all_layers", "", "not modelled: every weight is trained"},
    // Kernels and memory.
    {"transformer_impl", "transformer_engine", kFused},
    {"attention_backend", "auto|flash|fused|AttnBackend.auto|AttnBackend.flash|AttnBackend.fused",
     "not modelled: attention is fused and keeps no scores"},
    {"no_masked_softmax_fusion|no_bias_*|no_rope_fusion|no_persist_layer_norm|"
     "no_gradient_accumulation_fusion|disable_jit_fuser|cross_entropy_loss_fusion|"
     "use_transformer_engine_op_fuser",
     "", kFused},
    {"masked_softmax_fusion|gradient_accumulation_fusion", "True", kFused},
    {"memory_efficient_layer_norm", "", "not modelled: norms keep their inputs"},
    {"optimizer_cuda_graph", "", kGraph},
    {"cuda_graph_impl", "none", kGraph},
    {"deterministic_mode|batch_invariant_mode", "",
     "not modelled: kernels cost as the faster ones"},
    {"cpu_offloading_*", "True|False", kOffload},
    {"distribute_saved_activations", "", "not modelled: each rank keeps what it made"},
    {"checkpoint_activations", "", "an old name: set training.recompute"},
    {"empty_unused_memory_level", "0", "not modelled: the allocator keeps its blocks"},
    // Layout.
    {"tp_comm_*", "True|nccl", "not modelled: tp_comm_overlap says whether products overlap"},
    {"no_overlap_p2p_communication|overlap_p2p_communication_warmup_flush|"
     "microbatch_group_size_per_virtual_pipeline_stage|pipeline_model_parallel_split_rank",
     "", kPipeline},
    {"overlap_p2p_comm", "True", kPipeline},
    {"defer_embedding_wgrad_compute", "", kBackward},
    {"num_microbatches_with_partial_activation_checkpoints", "",
     "every microbatch recomputes alike here"},
    {"hybrid_context_parallel", "", kLengths},
    {"hierarchical_context_parallel_sizes", "", "not read: set parallelism.cp_ulysses_degree"},
    {"gtp_*", "1|[]", kSharded},
    {"expert_gtp_*", "1", kSharded},
    {"tensor_parallel_num_weight_shards|expert_tensor_parallel_num_weight_shards|"
     "enable_full_sharding_in_hsdp|torch_fsdp2_no_reshard_after_forward|fsdp_double_buffer",
     "", kSharded},
    {"outer_dp_sharding_strategy", "no_shard", kSharded},
    {"torch_fsdp2_reshard_after_forward", "True", kSharded},
    {"ddp_num_buckets", "", "not read: set parallelism.bucket_bytes"},
    {"ddp_reduce_scatter_with_fp32_accumulation", "", kNumbers},
    {"use_nccl_ub|nccl_ub", "", "not modelled: NCCL copies through buffers of its own"},
    {"nccl_communicator_config_path", "", "not read: set system.nccl"},
    {"use_sharp", "", "not modelled: see system.nccl.algorithms for switches that add"},
    // Data and goal.
    {"encoder_*|decoder_num_layers|decoder_seq_length", "", kOtherBlocks},
    {"variable_seq_lengths|reset_attention_mask|sft", "", kLengths},
    {"reset_position_ids|eod_mask_loss", "", kNumbers},
    {"perform_rl_step|rl_*|grpo_*|logits_load_dir", "", kOtherLoss},
    {"yaml_cfg", "", "not read: the arguments are in that file"},
});

// Arguments that say nothing about a step here: data, checkpoints, logs, the schedule of the
// learning rate, launchers, and details of arguments that the importer has read.
constexpr std::string_view kHarmless =
    "mtp_loss_scaling_factor|activations_checkpoint_method|adam_beta1|adam_beta2|adam_eps|add_"
    "position_embedding|"
    "adlr_autoresume*|align_grad_reduce|align_param_gather|allow_ambiguous_pad_tokens|"
    "app_tag_*|append_eod|apply_rope_fusion|async_*|attention_softmax_in_fp32|"
    "auto_detect_ckpt_format|barrier_with_L1_time|calc_ft_timeouts|check_*|ckpt_*|"
    "clone_scatter_output_in_embedding|config_logger_dir|container_*|cpus_per_task|"
    "create_attention_mask_in_dataloader|data_*|dataloader_*|ddp_average_in_collective|"
    "ddp_pad_buckets_for_high_nccl_busbw|deallocate_pipeline_outputs|"
    "disable_gloo_process_groups|disable_straggler_on_startup|dist_ckpt_*|distributed_*|"
    "dump_*|enable_ft_package|enable_one_logger|error_injection_*|eval_*|exclusive|exit_*|"
    "fim_*|finetune|flight_recorder_*|fp8_interval|fp8_margin|fp8_recipe|fp4_recipe|"
    "fp8_wgrad|ft_*|full_validation|gpus_per_node|grad_norm_skip_threshold|gres|"
    "high_priority_stream_groups|hysteresis|inference_*|init_model_with_meta_device|"
    "initial_loss_scale|inprocess_*|iterations_to_skip|job_name|kv_lora_rank|lazy_mpu_init|"
    "lion_*|load|load_*|local_rank|log_*|logging_level|loss_scale_window|lr_*|manual_gc*|"
    "master_addr|master_port|max_restarts|memory_snapshot_path|merge_file|min_loss_scale|min_lr|"
    "mock_data|moe_per_layer_logging|moe_routing_trace_*|mscale*|"
    "muon_*|nnodes|no_align_*|no_barrier_*|no_check_*|no_create_attention_mask_in_dataloader|"
    "no_initialization|no_load_*|no_mmap_bin_files|no_one_logger|no_position_embedding|"
    "no_save_*|node_rank|nodes|non_persistent_*|nproc_per_node|ntasks*|"
    "num_dataset_builder_threads|num_query_groups|num_workers|object_storage_cache_path|"
    "one_logger_*|openai_gelu|override_opt*|partition|"
    "per_split_data_args_path|perform_initialization|pretrained_checkpoint|profile*|"
    "q_lora_rank|qk_head_dim|qk_pos_emb_head_dim|rank|rdzv_*|record_memory_history|"
    "rerun_mode|rope_scaling_factor|rope_type|rotary_base|rotary_scaling_factor|save*|seed|"
    "sgd_momentum|skip_train|split|standalone|straggler_*|te_rng_tracker|tee|tensorboard_*|"
    "test_data_path|tiktoken_*|timing_log_*|tokenizer_*|train_*|trust_remote_code|"
    "use_checkpoint_*|use_cpu_initialization|use_dist_ckpt|use_flash_attn|"
    "use_gloo_process_groups|use_mcore_models|use_mp_args_from_checkpoint_args|"
    "use_nsys_profiler|use_persistent_ckpt_worker|use_pytorch_profiler|"
    "use_tokenizer_model_from_checkpoint_args|v_head_dim|valid_data_path|vocab_extra_ids|"
    "vocab_file|wandb_*|weight_decay_incr_style";

bool begins_or_is(std::string_view name, std::string_view pattern) {
  if (pattern.back() != '*') return name == pattern;
  pattern.remove_suffix(1);
  return name.substr(0, pattern.size()) == pattern;
}

// Whether `value` equals or matches an entry of `list`, whose entries bars separate.
bool is_one_of(std::string_view value, std::string_view list) {
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find('|', at), list.size());
    if (begins_or_is(value, list.substr(at, end - at))) return true;
    at = end + 1;
  }
  return false;
}

// Not set, switched off if off is as here, or one of the listed values.
bool is_as_here(std::string_view value, const Unmodelled& unmodelled) {
  if (is_one_of(value, unmodelled.as_here) || is_one_of(value, "None|[]")) return true;
  return value == "False" && unmodelled.as_here != "True";
}

const Unmodelled* find_unmodelled(std::string_view name) {
  const auto* found =
      std::find_if(kUnmodelled.begin(), kUnmodelled.end(),
                   [&](const Unmodelled& each) { return is_one_of(name, each.names); });
  return found == kUnmodelled.end() ? nullptr : found;
}

}  // namespace

std::string megatron::flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

void tell_unread_megatron(const MegatronArguments& arguments, Import& import) {
  std::size_t others = 0;
  for (const std::string& name : arguments.rest()) {
    const std::string value = arguments.written(name);
    const std::string told = arguments.from_log() ? name : megatron::flag_of(name);
    if (const Unmodelled* unmodelled = find_unmodelled(name)) {
      if (!is_as_here(value, *unmodelled)) {
        import.warn({told, value}, std::string(unmodelled->why));
        continue;
      }
    } else if (!arguments.from_log() && !is_one_of(name, kHarmless)) {
      import.warn({told, value}, "not known here: look whether it changes cost, memory or numbers");
      continue;
    }
    ++others;
    if (!arguments.from_log()) {
      import.ignore({told, value}, "says nothing about a step's cost, memory or numbers here");
    }
  }
  // A log prints every argument of its version, including unset ones.
  if (arguments.from_log()) {
    import.ignore({fmt::format("{} other arguments", others), ""},
                  "data, checkpoints, logging, or as here");
  }
}

}  // namespace shardsim
