#pragma once

#include "scenarios/formats/import.hpp"

// Keys of torchtitan's sections parallelism and training, as importer and emitter read them.
namespace shardsim::torchtitan {

inline constexpr NamePair kTensor = {"tensor_parallel_degree", "parallelism.tp"};
inline constexpr NamePair kPipeline = {"pipeline_parallel_degree", "parallelism.pp"};
inline constexpr NamePair kContext = {"context_parallel_degree", "parallelism.cp"};
inline constexpr NamePair kExperts = {"expert_parallel_degree", "parallelism.ep"};
inline constexpr NamePair kExpertTensor = {"expert_tensor_parallel_degree", "parallelism.etp"};
inline constexpr NamePair kReplicas = {"data_parallel_replicate_degree",
                                       "parallelism.dp_replicate"};
inline constexpr NamePair kShards = {"data_parallel_shard_degree", "parallelism.dp_shard"};
inline constexpr NamePair kTensorOverlap = {"enable_async_tensor_parallel",
                                            "parallelism.overlap_tensor_parallel"};
inline constexpr NamePair kSequence = {"enable_sequence_parallel", "parallelism.sequence_parallel"};
inline constexpr NamePair kReshard = {"fsdp_reshard_after_forward",
                                      "parallelism.reshard_after_forward"};
inline constexpr NamePair kSchedule = {"pipeline_parallel_schedule", "parallelism.schedule"};
inline constexpr NamePair kScheduleFile = {"pipeline_parallel_schedule_csv",
                                           "parallelism.schedule_file"};
inline constexpr const char* kLayersPerStage = "pipeline_parallel_layers_per_stage";
inline constexpr const char* kMicrobatches = "num_pp_microbatches";  ///< In a step of a pipeline.

inline constexpr NamePair kPrecision = {"mixed_precision_param", "training.precision"};
inline constexpr NamePair kReduced = {"mixed_precision_reduce", "training.grad_reduce_dtype"};
// In tokens, and so only since 2026. The importer has the older names, which count sequences.
inline constexpr NamePair kLength = {"max_context_length", "model.seq_len"};
inline constexpr NamePair kLocal = {"num_tokens_per_microbatch_per_dp_rank",
                                    "training.micro_batch_size"};
inline constexpr NamePair kGlobal = {"num_tokens_per_train_step", "training.global_batch_size"};

}  // namespace shardsim::torchtitan
