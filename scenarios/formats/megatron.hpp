#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/megatron_arguments.hpp"

// The arguments of Megatron-LM that importer and emitter both have, and the parts of the importer.
namespace shardsim {

namespace megatron {

inline constexpr NamePair kLayers = {"num_layers", "model.num_layers"};
inline constexpr NamePair kHidden = {"hidden_size", "model.hidden_size"};
inline constexpr NamePair kFfn = {"ffn_hidden_size", "model.ffn_hidden_size"};
inline constexpr NamePair kHeads = {"num_attention_heads", "model.num_attention_heads"};
inline constexpr NamePair kGroups = {"num_query_groups", "model.num_query_groups"};
inline constexpr NamePair kLength = {"seq_length", "model.seq_len"};
inline constexpr NamePair kPositions = {"max_position_embeddings", "model.max_position_embeddings"};
inline constexpr NamePair kRotaryBase = {"rotary_base", "model.rope_theta"};
inline constexpr NamePair kUntied = {"untie_embeddings_and_output_weights",
                                     "model.tied_embeddings"};
inline constexpr NamePair kExperts = {"num_experts", "model.num_experts"};
inline constexpr NamePair kTopK = {"moe_router_topk", "model.num_experts_per_token"};
inline constexpr NamePair kExpertFfn = {"moe_ffn_hidden_size", "model.moe_ffn_hidden_size"};
inline constexpr NamePair kSharedFfn = {"moe_shared_expert_intermediate_size",
                                        "model.num_shared_experts"};

inline constexpr NamePair kTensor = {"tensor_model_parallel_size", "parallelism.tp"};
inline constexpr NamePair kSequence = {"sequence_parallel", "parallelism.sequence_parallel"};
inline constexpr NamePair kPipeline = {"pipeline_model_parallel_size", "parallelism.pp"};
inline constexpr NamePair kChunks = {"num_virtual_stages_per_pipeline_rank", "parallelism.vpp"};
inline constexpr NamePair kContext = {"context_parallel_size", "parallelism.cp"};
inline constexpr NamePair kContextType = {"cp_comm_type", "parallelism.cp_attention"};
inline constexpr NamePair kExpertParallel = {"expert_model_parallel_size", "parallelism.ep"};
inline constexpr NamePair kReplicas = {"num_distributed_optimizer_instances",
                                       "parallelism.dp_replicate"};
inline constexpr NamePair kReduceEarly = {"overlap_grad_reduce", "parallelism.overlap_grad_reduce"};
inline constexpr NamePair kGatherEarly = {"overlap_param_gather",
                                          "parallelism.overlap_param_gather"};
inline constexpr NamePair kBuckets = {"ddp_bucket_size", "parallelism.bucket_bytes"};

inline constexpr NamePair kMicroBatch = {"micro_batch_size", "training.micro_batch_size"};
inline constexpr NamePair kGlobalBatch = {"global_batch_size", "training.global_batch_size"};
inline constexpr NamePair kRecompute = {"recompute_granularity", "training.recompute"};

/// Values of data_parallel_sharding_strategy, by zero_stage.
inline constexpr std::array kShardedState = {"", "optim", "optim_grads", "optim_grads_params"};

/// "--num-layers" of "num_layers".
[[nodiscard]] std::string flag_of(std::string name);

}  // namespace megatron

/// tp, pp, cp, ep, the data-parallel ranks that `gpus` leave, schedule, sharding and overlap.
/// Throws ScenarioError E1362 if the degrees do not divide the GPUs.
void import_megatron_layout(MegatronArguments& arguments, std::int64_t gpus, Import& import);

/// Batch, precision, optimizer, recomputation.
void import_megatron_training(MegatronArguments& arguments, Import& import);

/// Limits that no scenario can state: an optimizer that is not implemented here.
[[nodiscard]] std::vector<std::string> megatron_training_limits(MegatronArguments& arguments);

/// Adds rows for the arguments that no other row has read. Arguments that change cost, memory or
/// numbers need a decision by the user, as do unknown flags of a command line.
/// REQUIRES: all other rows are read.
void tell_unread_megatron(const MegatronArguments& arguments, Import& import);

}  // namespace shardsim
