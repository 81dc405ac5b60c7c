#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/source_text.hpp"

// The arguments of Megatron-LM that importer and emitter both have, and the parts of the importer.
// Arguments are read from a run's log or from a command line under the names of Megatron-LM's own
// namespace ("tensor_model_parallel_size"), each with its place.
namespace shardsim {

namespace megatron {

inline constexpr NamePair kLayers = {"num_layers", "model.num_layers"};
inline constexpr NamePair kHidden = {"hidden_size", "model.hidden_size"};
inline constexpr NamePair kFfn = {"ffn_hidden_size", "model.ffn_hidden_size"};
inline constexpr NamePair kHeads = {"num_attention_heads", "model.num_attention_heads"};
inline constexpr NamePair kGroups = {"num_query_groups", "model.num_query_groups"};
inline constexpr NamePair kHeadDim = {"kv_channels", "model.head_dim"};
inline constexpr NamePair kQueryLatent = {"q_lora_rank", "model.q_lora_rank"};
inline constexpr NamePair kKeyLatent = {"kv_lora_rank", "model.kv_lora_rank"};
inline constexpr NamePair kOwnHead = {"qk_head_dim", "model.qk_nope_head_dim"};
inline constexpr NamePair kTurnedHead = {"qk_pos_emb_head_dim", "model.qk_rope_head_dim"};
inline constexpr NamePair kValueHead = {"v_head_dim", "model.value_head_dim"};
inline constexpr NamePair kLength = {"seq_length", "model.seq_len"};
inline constexpr NamePair kPositions = {"max_position_embeddings", "model.max_position_embeddings"};
inline constexpr NamePair kRotaryBase = {"rotary_base", "model.rope_theta"};
inline constexpr NamePair kUntied = {"untie_embeddings_and_output_weights",
                                     "model.tied_embeddings"};
inline constexpr NamePair kExperts = {"num_experts", "model.num_experts"};
inline constexpr NamePair kTopK = {"moe_router_topk", "model.num_experts_per_token"};
inline constexpr NamePair kExpertFfn = {"moe_ffn_hidden_size", "model.moe_ffn_hidden_size"};
inline constexpr NamePair kExpertLatent = {"moe_latent_size", "model.moe_latent_size"};
inline constexpr NamePair kSharedFfn = {"moe_shared_expert_intermediate_size",
                                        "model.moe_shared_ffn_hidden_size"};
inline constexpr NamePair kTensor = {"tensor_model_parallel_size", "parallelism.tp"};
inline constexpr NamePair kSequence = {"sequence_parallel", "parallelism.sequence_parallel"};
inline constexpr NamePair kTensorOverlap = {"tp_comm_overlap",
                                            "parallelism.overlap_tensor_parallel"};
inline constexpr NamePair kPipeline = {"pipeline_model_parallel_size", "parallelism.pp"};
inline constexpr NamePair kChunks = {"num_virtual_stages_per_pipeline_rank", "parallelism.vpp"};
inline constexpr NamePair kStages = {"pipeline_model_parallel_layout", "parallelism.stage_layers"};
inline constexpr NamePair kContext = {"context_parallel_size", "parallelism.cp"};
inline constexpr NamePair kContextType = {"cp_comm_type", "parallelism.cp_attention"};
inline constexpr NamePair kExpertParallel = {"expert_model_parallel_size", "parallelism.ep"};
inline constexpr NamePair kCombined = {"overlap_moe_expert_parallel_comm", "parallelism.schedule"};
inline constexpr NamePair kDelay = {"delay_wgrad_compute", "parallelism.delay_weight_gradients"};
inline constexpr NamePair kExpertTensor = {"expert_tensor_parallel_size", "parallelism.etp"};
inline constexpr NamePair kReplicas = {"num_distributed_optimizer_instances",
                                       "parallelism.dp_replicate"};
inline constexpr NamePair kReduceEarly = {"overlap_grad_reduce", "parallelism.overlap_grad_reduce"};
inline constexpr NamePair kGatherEarly = {"overlap_param_gather",
                                          "parallelism.overlap_param_gather"};
inline constexpr NamePair kBuckets = {"ddp_bucket_size", "parallelism.bucket_bytes"};
inline constexpr NamePair kMicroBatch = {"micro_batch_size", "training.micro_batch_size"};
inline constexpr NamePair kGlobalBatch = {"global_batch_size", "training.global_batch_size"};
inline constexpr NamePair kRecompute = {"recompute_granularity", "training.recompute"};
inline constexpr NamePair kNarrowInputs = {"activation_func_fp8_input_store",
                                           "training.activation_store"};
inline constexpr NamePair kModules = {"recompute_modules", "training.recompute_modules"};
inline constexpr NamePair kFp8Format = {"fp8_format", "training.precision"};
inline constexpr NamePair kFp4Format = {"fp4_format", "training.precision"};
inline constexpr NamePair kNarrowWeights = {"fp8_param_gather", "training.quantized_parameters"};
inline constexpr NamePair kFp8Recipe = {"fp8_recipe", "training.fp8_recipe"};
/// Read where first_last_layers_bf16 is set.
inline constexpr const char* kSomeLayersBf16 = "first_last_layers_bf16";
inline constexpr NamePair kFirstBf16 = {"num_layers_at_start_in_bf16",
                                        "training.bf16_layers_at_start"};
inline constexpr NamePair kLastBf16 = {"num_layers_at_end_in_bf16", "training.bf16_layers_at_end"};
/// Two flags of theirs, one for each moment; read beside the optimizer that knows of types.
inline constexpr const char* kAwareOfTypes = "use_precision_aware_optimizer";
inline constexpr NamePair kMean = {"exp_avg_dtype", "training.optimizer_state_dtype"};
inline constexpr NamePair kSquare = {"exp_avg_sq_dtype", "training.optimizer_state_dtype"};
inline constexpr NamePair kMuonScalar = {"muon_scalar_optimizer", "training.muon_scalar_optimizer"};
inline constexpr NamePair kMuonMomentum = {"muon_momentum", "training.muon_momentum"};
inline constexpr NamePair kMuonNesterov = {"muon_nesterov", "training.muon_nesterov"};
inline constexpr NamePair kMuonSteps = {"muon_num_ns_steps", "training.muon_num_ns_steps"};
inline constexpr NamePair kMuonScale = {"muon_scale_mode", "training.muon_scale_mode"};
inline constexpr NamePair kMuonExtraScale = {"muon_extra_scale_factor",
                                             "training.muon_extra_scale_factor"};
inline constexpr NamePair kMuonTensor = {"muon_tp_mode", "training.muon_tp_mode"};
inline constexpr NamePair kMuonCoefficients = {"muon_coefficient_type",
                                               "training.muon_coefficient_type"};
/// Another name of muon with use_distributed_optimizer, deprecated.
inline constexpr const char* kLayerWiseMuon = "dist_muon";

/// Values of data_parallel_sharding_strategy, by zero_stage.
inline constexpr std::array kShardedState = {"", "optim", "optim_grads", "optim_grads_params"};

/// "--num-layers" of "num_layers".
[[nodiscard]] std::string flag_of(std::string name);

}  // namespace megatron

struct MegatronArgument {
  std::string value;
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string words = {};  ///< On a command line: with those behind it, for a flag that is a list.
};

struct OptimizerRule;  // strategies/optimizer/rules.hpp

class MegatronArguments {
 public:
  explicit MegatronArguments(const SourceText& source, bool from_log)
      : source_(&source), from_log_(from_log) {}

  void add(const std::string& name, MegatronArgument argument);
  /// Logs have every argument, command lines only those that differ from Megatron's defaults.
  [[nodiscard]] bool from_log() const { return from_log_; }
  [[nodiscard]] bool empty() const { return arguments_.empty(); }

  // Nothing if it is missing or "None". Throw ScenarioError E1361 with the place of an unfit value.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name,
                                                    const ForeignRange& range);
  [[nodiscard]] std::optional<double> number(const std::string& name);
  [[nodiscard]] bool truth(const std::string& name, bool otherwise = false);
  [[nodiscard]] std::optional<std::string> text(const std::string& name);
  /// The same of a list: "mlp moe", or as a log has it, "['mlp', 'moe']".
  [[nodiscard]] std::optional<std::string> list(const std::string& name);

  /// "" if it is not there.
  [[nodiscard]] std::string written(const std::string& name) const;
  [[nodiscard]] ForeignValue at(const std::string& name) const { return {name, written(name)}; }
  /// Names that no reader has asked for.
  [[nodiscard]] std::vector<std::string> rest() const;
  [[nodiscard]] Span where(const std::string& name) const;
  [[nodiscard]] const SourceText& source() const { return *source_; }

 private:
  [[nodiscard]] const MegatronArgument* find(const std::string& name);

  const SourceText* source_;
  bool from_log_;
  std::map<std::string, MegatronArgument> arguments_;
  std::set<std::string> asked_;
};

/// Reads a log's block between the rulers "arguments" and "end of arguments", the last one if the
/// file has several. Otherwise it reads the flags in the text, a command line or a launch script.
/// Throws ScenarioError E1360 if there is neither.
[[nodiscard]] MegatronArguments read_megatron_arguments(const SourceText& source);

/// The lines of a run after its arguments.
struct MegatronRun {
  std::vector<double> step_ms;       ///< From the last run in the log.
  std::vector<double> tflops;        ///< Per GPU, if the run reports it.
  std::int64_t padded_vocab = 0;     ///< 0: not reported.
  std::int64_t rank_parameters = 0;  ///< On model-parallel rank (0, 0); 0: not reported.
};

[[nodiscard]] MegatronRun read_megatron_run(const std::string& text);

/// tp, pp, cp, ep, the data-parallel ranks that `gpus` leave, schedule, sharding and overlap.
/// Throws ScenarioError E1362 if the degrees do not divide the GPUs.
void import_megatron_layout(MegatronArguments& arguments, std::int64_t gpus, Import& import);
/// Chunks, schedule and layers of stages. Throws ScenarioError E1333: a pattern of layers has
/// stages that `pp` does not divide.
void import_megatron_pipeline(MegatronArguments& arguments, std::int64_t pp, Import& import);
/// How tokens reach experts of other ranks. REQUIRES: the model and expert slices are imported.
void import_megatron_dispatch(MegatronArguments& arguments, std::int64_t ep, Import& import);

/// Those of a list: "mlp moe" or, as a checkpoint has it, "['mlp', 'moe']".
[[nodiscard]] std::vector<std::string> words_of_list(const std::string& list);
/// Batch, precision, optimizer, recomputation.
void import_megatron_training(MegatronArguments& arguments, Import& import);

/// The name of their optimizer of what Muon does not take: of all, with another than muon.
namespace megatron {
[[nodiscard]] bool is_muon(const std::string& optimizer);
[[nodiscard]] std::string elementwise_optimizer(MegatronArguments& arguments,
                                                const std::string& optimizer);
}  // namespace megatron

/// Products in fewer bits. REQUIRES: the type of all else is imported.
void import_megatron_low_precision(MegatronArguments& arguments, Import& import);
/// The fields of muon; `optimizer`: their name of it; `scalar`: takes the rest.
/// REQUIRES: the layout is imported.
void import_megatron_muon(MegatronArguments& arguments, const std::string& optimizer,
                          const OptimizerRule& scalar, Import& import);
/// A choice of muon's that no scenario can state; empty: none.
[[nodiscard]] std::string megatron_muon_limit(MegatronArguments& arguments);

/// Limits that no scenario can state: an optimizer that is not implemented here.
[[nodiscard]] std::vector<std::string> megatron_training_limits(MegatronArguments& arguments);
/// Adds rows for the arguments that no other row has read. Arguments that change cost, memory or
/// numbers need a decision by the user, as do unknown flags of a command line.
/// REQUIRES: all other rows are read.
void tell_unread_megatron(const MegatronArguments& arguments, Import& import);

}  // namespace shardsim
